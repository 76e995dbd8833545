//! Who takes part, and how each is started.

use std::path::Path;
use std::process::Command;

use super::Backend;
use super::build::Programs;
use super::row::{Op, Row};
use crate::process::command;

/// Names a contender; `Other` is another build of ours, and `MpichMpir` is MPICH with the collectives it has for any
/// transport, which yield where ranks share processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contender {
    Ours,
    Other,
    Peer(Peer),
    MpichMpir,
}

/// Names a library to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
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

    /// Returns the ways in which this library takes part.
    pub(super) fn contenders(self, backend: Backend, crowded: bool) -> Vec<Contender> {
        use Backend::{MpiMpich, MpiOpenMpi, Shm, Tcp};
        match (self, backend) {
            (Self::Mpich, Shm) if crowded => vec![Contender::Peer(self), Contender::MpichMpir],
            (Self::Mpich, Shm | Tcp | MpiMpich)
            | (Self::OpenMpi, Shm | Tcp | MpiOpenMpi)
            | (Self::Gloo, Tcp) => vec![Contender::Peer(self)],
            // Gloo knows no shared memory, and a library is not compared with another that runs below ours.
            (Self::Mpich | Self::OpenMpi | Self::Gloo, _) => Vec::new(),
        }
    }
}

/// Describes how a contender is to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) backend: Backend,
    pub(super) ranks: usize,
    /// Whether ranks share processors.
    pub(super) crowded: bool,
    pub(super) seconds: f64,
    /// Whole seconds after which a row is given up.
    pub(super) limit: u32,
}

impl Contender {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Other => "other",
            Self::Peer(peer) => peer.name(),
            Self::MpichMpir => "mpich-mpir",
        }
    }

    const fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::Other)
    }

    /// Returns whether the measuring program has this call.
    pub(super) const fn knows(self, op: Op) -> bool {
        self.is_ours() || !matches!(op, Op::Broadcasts | Op::ExactSum | Op::Copy)
    }

    /// Prepares the program for some rows. The folder `store` is empty.
    pub(super) fn command(
        self,
        setting: &Setting,
        programs: &Programs,
        store: &Path,
        rows: &[Row],
    ) -> Command {
        let program = |peer: Peer| programs.peers.join(peer.name());
        let mut command = match self {
            Self::Ours | Self::Other => ours(setting, &programs.folder(self, setting.backend)),
            Self::MpichMpir => mpich(setting, true, &program(Peer::Mpich)),
            Self::Peer(Peer::Mpich) => {
                // Below ours it waits the way it waits for ours.
                let mpir = setting.crowded && setting.backend == Backend::MpiMpich;
                mpich(setting, mpir, &program(Peer::Mpich))
            }
            Self::Peer(Peer::OpenMpi) => open_mpi(setting, &program(Peer::OpenMpi)),
            Self::Peer(Peer::Gloo) => {
                let ranks = setting.ranks.to_string();
                let mut run = command(&program(Peer::Gloo).to_string_lossy(), &[&ranks]);
                run.arg(store);
                run
            }
        };
        command.arg(setting.seconds.to_string());
        if !self.is_ours() {
            command.arg(setting.limit.to_string());
        }
        command.args(rows.iter().map(|row| format!("{}:{}", row.op, row.bytes)));
        command
    }
}

/// A build of ours, by our launcher or by that of an MPI library.
fn ours(setting: &Setting, folder: &Path) -> Command {
    let program = folder.join("examples").join("timings");
    let mut run = match setting.backend {
        Backend::Shm | Backend::Tcp => {
            let ranks = setting.ranks.to_string();
            let flags = ["-n", &ranks, "--backend", setting.backend.name(), "--"];
            let mut run = command(&folder.join("comm-run").to_string_lossy(), &flags);
            run.arg(program);
            run
        }
        Backend::MpiMpich => mpich(setting, setting.crowded, &program),
        Backend::MpiOpenMpi => open_mpi(setting, &program),
    };
    if setting.backend.mpi().is_some() {
        run.env("COBRE_COMM_BACKEND", "mpi");
    }
    run.arg("--seconds");
    run
}

/// MPICH as it comes, which is shared memory on one machine; or over sockets of the loopback interface, with the
/// switches of either network layer it may have been built with.
fn mpich(setting: &Setting, mpir: bool, program: &Path) -> Command {
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
    run.arg(program);
    run
}

/// Open MPI as it comes, or over sockets of the loopback interface; it yields where ranks share processors.
fn open_mpi(setting: &Setting, program: &Path) -> Command {
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
    run.arg(program);
    run
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::super::build::programs;
    use super::super::tests::setting;
    use super::*;
    use crate::process::shown;

    fn started(contender: Contender, backend: Backend, crowded: bool) -> Command {
        let rows = [Row::new(Op::Barrier, 0), Row::new(Op::Allreduce, 32)];
        contender.command(
            &setting(backend, 4, crowded),
            &programs(),
            Path::new("store"),
            &rows,
        )
    }

    #[test]
    fn all_are_asked_for_the_same() {
        let rows = "barrier:0 allreduce:32";
        for (contender, checkout) in [(Contender::Ours, "ours"), (Contender::Other, "other")] {
            let program = format!("{checkout}/target/release/examples/timings --seconds 0.2");
            assert_eq!(
                shown(&started(contender, Backend::Tcp, true)),
                format!("comm-run -n 4 --backend tcp -- {program} {rows}")
            );
        }
        for (peer, program) in [
            (Peer::Mpich, "peers/mpich"),
            (Peer::OpenMpi, "peers/openmpi"),
        ] {
            let command = shown(&started(Contender::Peer(peer), Backend::Shm, true));
            assert!(command.contains(" -n 4 "), "{command}");
            let end = format!(" {program} 0.2 20 {rows}");
            assert!(command.ends_with(&end), "{command}");
        }
    }

    #[test]
    fn ours_over_mpi_and_mpi_alone_are_started_alike() {
        for (peer, backend) in [
            (Peer::Mpich, Backend::MpiMpich),
            (Peer::OpenMpi, Backend::MpiOpenMpi),
        ] {
            for crowded in [false, true] {
                let [ours, alone] = [Contender::Ours, Contender::Peer(peer)].map(|contender| {
                    let command = started(contender, backend, crowded);
                    let words = command.get_args().map(OsStr::to_os_string);
                    let flags = words.take_while(|word| !word.as_encoded_bytes().contains(&b'/'));
                    let envs = command.get_envs();
                    let envs = envs.filter(|(name, _)| *name != "COBRE_COMM_BACKEND");
                    let envs =
                        envs.map(|(name, value)| (name.to_owned(), value.map(OsStr::to_os_string)));
                    (flags.collect::<Vec<_>>(), envs.collect::<Vec<_>>())
                });
                assert_eq!(ours, alone);
            }
        }
    }

    #[test]
    fn peers_of_tcp_get_no_shared_memory() {
        let open = shown(&started(
            Contender::Peer(Peer::OpenMpi),
            Backend::Tcp,
            false,
        ));
        assert!(open.contains("--mca btl tcp,self"), "{open}");
        let open = shown(&started(
            Contender::Peer(Peer::OpenMpi),
            Backend::Shm,
            false,
        ));
        assert!(!open.contains("--mca"), "{open}");
        let set = |backend| {
            let command = started(Contender::Peer(Peer::Mpich), backend, false);
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
        assert_eq!(count(Backend::MpiOpenMpi, true), 0);
        assert!(Peer::Gloo.contenders(Backend::Shm, false).is_empty());
    }
}
