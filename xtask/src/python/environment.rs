//! A Python virtual environment below `target`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{target, wheel};
use crate::process::{Terminal, command, workspace_root};
use crate::report::Outcome;

/// A virtual environment.
#[derive(Debug)]
pub(crate) struct Environment(PathBuf);

/// Waits until no other process prepares or packs, and blocks other processes as long as the file is open. If the file cannot be
/// opened, no process waits.
pub(super) fn alone() -> Option<File> {
    let folder = target().join("python");
    fs::create_dir_all(&folder).ok()?;
    let file = File::create(folder.join("lock")).ok()?;
    file.lock().ok().map(|()| file)
}

impl Environment {
    /// Returns the environment with the tools that pack, test and check; later runs reuse it.
    pub(super) fn tools() -> Self {
        Self(target().join("python/tools"))
    }

    /// Returns the environment in a folder.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(super) fn interpreter(&self) -> PathBuf {
        self.0.join("bin/python")
    }

    /// Prepares the interpreter of the environment, in the folder of the package.
    pub(super) fn python(&self, arguments: &[&str]) -> Command {
        self.program("python", arguments)
    }

    /// Prepares a program of the environment, in the folder of the package.
    pub(super) fn program(&self, name: &str, arguments: &[&str]) -> Command {
        let mut program = Command::new(self.0.join("bin").join(name));
        program.args(arguments).stdin(Stdio::null());
        program.current_dir(workspace_root().join("comm-python"));
        program
            .env("VIRTUAL_ENV", &self.0)
            // Every rank of a test imports numpy: it is compiled once, and not among the sources.
            .env("PYTHONPYCACHEPREFIX", target().join("python/compiled"))
            .env_remove("PYTHONDONTWRITEBYTECODE")
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME");
        program
    }

    /// Recreates the environment.
    fn create(&self, terminal: &Terminal) -> Outcome {
        let mut create = command("python3", &["-m", "venv", "--clear"]);
        terminal.run(create.arg(&self.0))
    }

    /// Installs the packages of a list, unless the environment already has them: a copy of the list is kept in it.
    pub(super) fn prepare(&self, terminal: &Terminal, list: &str) -> Outcome {
        let path = workspace_root().join("comm-python").join(list);
        let wanted = match fs::read_to_string(&path) {
            Ok(wanted) => wanted,
            Err(error) => return Outcome::Failed(format!("{}: {error}", path.display())),
        };
        let kept = self.0.join(list);
        if fs::read_to_string(&kept).is_ok_and(|kept| kept == wanted) {
            return Outcome::Passed;
        }
        match self.install(terminal, &["--requirement", list]) {
            Outcome::Passed => {}
            failed => return failed,
        }
        match fs::write(&kept, wanted) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{}: {error}", kept.display())),
        }
    }

    /// Installs packages by arguments of pip, into a new environment if none exists.
    pub(crate) fn install(&self, terminal: &Terminal, arguments: &[&str]) -> Outcome {
        if !self.interpreter().exists() {
            match self.create(terminal) {
                Outcome::Passed => {}
                failed => return failed,
            }
        }
        self.pip(terminal, arguments)
    }

    /// Installs the package that was built, and replaces an older one.
    pub(super) fn install_wheel(&self, terminal: &Terminal, more: &[&str]) -> Outcome {
        let wheel = match wheel() {
            Ok(wheel) => wheel.display().to_string(),
            Err(reason) => return Outcome::Failed(reason),
        };
        self.pip(terminal, &[&["--force-reinstall", &wheel], more].concat())
    }

    fn pip(&self, terminal: &Terminal, arguments: &[&str]) -> Outcome {
        let bounded = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            // Modules are compiled when they are imported; most of them never are.
            "--no-compile",
            "--retries",
            "2",
        ];
        let mut pip = self.python(&bounded);
        match terminal.run(pip.args(["--timeout", "30"]).args(arguments)) {
            Outcome::Failed(reason) => Outcome::Failed(format!(
                "pip could not install the packages ({reason}); without a network, download them to a folder and set PIP_FIND_LINKS and \
                PIP_NO_INDEX=1"
            )),
            outcome => outcome,
        }
    }
}
