//! Who takes part, and how each is started.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Backend;
use super::row::Row;
use crate::mpi::Mpi;
use crate::process::command;

/// Names a contender; `MpichMpir` is MPICH with the collectives it has for any transport, which yield where ranks share
/// processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contender {
    Ours,
    Mpich,
    MpichMpir,
    OpenMpi,
    Gloo,
}

/// Names a library to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    Mpich,
    #[value(name = "openmpi")]
    OpenMpi,
    Gloo,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Mpich, Self::OpenMpi, Self::Gloo];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
            Self::Gloo => "gloo",
        }
    }

    /// Gives the ways in which this library takes part.
    pub(super) fn contenders(self, backend: Backend, crowded: bool) -> &'static [Contender] {
        match (self, backend) {
            (Self::Mpich, Backend::Shm) if crowded => &[Contender::Mpich, Contender::MpichMpir],
            (Self::Mpich, _) => &[Contender::Mpich],
            (Self::OpenMpi, _) => &[Contender::OpenMpi],
            (Self::Gloo, Backend::Tcp) => &[Contender::Gloo],
            // It knows no shared memory.
            (Self::Gloo, Backend::Shm) => &[],
        }
    }
}

/// Says how a contender is to run.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) programs: &'a Programs,
    pub(super) backend: Backend,
    pub(super) ranks: usize,
    /// Whether ranks share processors.
    pub(super) crowded: bool,
    pub(super) seconds: f64,
    /// Whole seconds after which a row is given up.
    pub(super) limit: u32,
}

/// Says where the measuring programs are.
#[derive(Debug)]
pub(super) struct Programs {
    /// The folder of our own.
    pub(super) ours: PathBuf,
    /// The folder of the peers'.
    pub(super) peers: PathBuf,
}

impl Contender {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Mpich => "mpich",
            Self::MpichMpir => "mpich-mpir",
            Self::OpenMpi => "openmpi",
            Self::Gloo => "gloo",
        }
    }

    /// Prepares the program for some rows.
    pub(super) fn command(self, setting: &Setting<'_>, rows: &[Row]) -> Command {
        let (seconds, limit) = (setting.seconds.to_string(), setting.limit.to_string());
        let mut command = match self {
            Self::Ours => ours(setting),
            Self::Mpich | Self::MpichMpir => mpich(setting, self == Self::MpichMpir),
            Self::OpenMpi => open_mpi(setting),
            Self::Gloo => gloo(setting),
        };
        match self {
            Self::Ours => command.args(["--seconds", &seconds]),
            _ => command.args([seconds, limit]),
        };
        command.args(rows.iter().map(|row| row.argument()));
        command
    }
}

fn program(path: &Path, arguments: &[&str]) -> Command {
    command(&path.to_string_lossy(), arguments)
}

fn ours(setting: &Setting<'_>) -> Command {
    let folder = &setting.programs.ours;
    let ranks = setting.ranks.to_string();
    let flags = ["-n", &ranks, "--backend", setting.backend.name(), "--"];
    let mut run = program(&folder.join("comm-run"), &flags);
    run.arg(folder.join("examples").join("timings"));
    run
}

/// MPICH as it comes, which is shared memory on one machine; or over sockets of the loopback interface, with the
/// switches of either network layer it may have been built with.
fn mpich(setting: &Setting<'_>, mpir: bool) -> Command {
    let ranks = setting.ranks.to_string();
    let mut run = command("mpiexec.mpich", &["-n", &ranks]);
    if setting.backend == Backend::Tcp {
        run.env("MPIR_CVAR_NOLOCAL", "1");
        run.env("UCX_TLS", "tcp,self").env("UCX_NET_DEVICES", "lo");
        run.env("FI_PROVIDER", "tcp").env("FI_TCP_IFACE", "lo");
    }
    for collective in ["ALLREDUCE", "BCAST", "BARRIER", "REDUCE"] {
        let variable = format!("MPIR_CVAR_{collective}_POSIX_INTRA_ALGORITHM");
        if mpir {
            run.env(variable, "mpir");
        } else {
            run.env_remove(variable);
        }
    }
    run.arg(setting.programs.peers.join(Mpi::Mpich.name()));
    run
}

/// Open MPI as it comes, or over sockets of the loopback interface; it yields where ranks share processors.
fn open_mpi(setting: &Setting<'_>) -> Command {
    let ranks = setting.ranks.to_string();
    let flags = ["--allow-run-as-root", "--oversubscribe", "-n", &ranks];
    let mut run = command("mpiexec.openmpi", &flags);
    if setting.backend == Backend::Tcp {
        run.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
        run.args(["--mca", "btl_tcp_if_include", "lo"]);
    }
    if setting.crowded {
        run.args(["--mca", "mpi_yield_when_idle", "1"]);
    }
    run.arg(setting.programs.peers.join(Mpi::OpenMpi.name()));
    run
}

fn gloo(setting: &Setting<'_>) -> Command {
    let mut run = program(&setting.programs.peers.join("gloo"), &[]);
    run.arg(setting.ranks.to_string());
    run.arg(setting.programs.store());
    run
}

impl Programs {
    /// Gives the folder in which the ranks of Gloo meet. It must be empty when they start.
    pub(super) fn store(&self) -> PathBuf {
        self.peers.join(format!("store-{}", std::process::id()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Op;
    use super::*;
    use crate::process::shown;

    fn started(contender: Contender, backend: Backend, crowded: bool) -> Command {
        let programs = Programs {
            ours: PathBuf::from("ours"),
            peers: PathBuf::from("peers"),
        };
        let setting = Setting {
            programs: &programs,
            backend,
            ranks: 4,
            crowded,
            seconds: 0.2,
            limit: 20,
        };
        contender.command(
            &setting,
            &[Row::new(Op::Barrier, 0), Row::new(Op::Allreduce, 32)],
        )
    }

    #[test]
    fn all_are_asked_for_the_same() {
        let rows = "barrier:0 allreduce:32";
        let ours = shown(&started(Contender::Ours, Backend::Tcp, true));
        let expected =
            format!("comm-run -n 4 --backend tcp -- ours/examples/timings --seconds 0.2 {rows}");
        assert_eq!(ours, expected);
        for (contender, program) in [
            (Contender::Mpich, "peers/mpich"),
            (Contender::OpenMpi, "peers/openmpi"),
        ] {
            let command = shown(&started(contender, Backend::Shm, true));
            assert!(command.contains(" -n 4 "), "{command}");
            let end = format!(" {program} 0.2 20 {rows}");
            assert!(command.ends_with(&end), "{command}");
        }
    }

    #[test]
    fn peers_of_tcp_get_no_shared_memory() {
        let open = shown(&started(Contender::OpenMpi, Backend::Tcp, false));
        assert!(open.contains("--mca btl tcp,self"), "{open}");
        let open = shown(&started(Contender::OpenMpi, Backend::Shm, false));
        assert!(!open.contains("--mca"), "{open}");
        let set = |backend| {
            let command = started(Contender::Mpich, backend, false);
            command
                .get_envs()
                .any(|(name, value)| name == "UCX_TLS" && value.is_some())
        };
        assert!(set(Backend::Tcp) && !set(Backend::Shm));
    }

    #[test]
    fn mpich_takes_part_twice_only_where_ranks_share_processors() {
        let count = |backend, crowded| Peer::Mpich.contenders(backend, crowded).len();
        assert_eq!(count(Backend::Shm, true), 2);
        assert_eq!(count(Backend::Shm, false), 1);
        assert_eq!(count(Backend::Tcp, true), 1);
        assert!(Peer::Gloo.contenders(Backend::Shm, false).is_empty());
    }
}
