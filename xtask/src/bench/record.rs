//! The raw figures as a file of comma-separated values.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Backend;
use super::contender::Contender;
use super::figure::Figure;

const HEAD: &str = "backend,ranks,round,contender,call,bytes,calls,median_us,p99_us,span_us";

/// Writes each figure as it comes, so that an interrupted run leaves what it had.
#[derive(Debug)]
pub(super) struct Record {
    file: Option<(PathBuf, File)>,
}

impl Record {
    /// Opens the file, if one is wanted.
    pub(super) fn create(path: Option<&Path>) -> Result<Self, String> {
        let open = |path: &Path| {
            let mut file = File::create(path)?;
            writeln!(file, "{HEAD}")?;
            Ok((path.to_path_buf(), file))
        };
        let file = path
            .map(|path| open(path).map_err(|why: io::Error| format!("{}: {why}", path.display())));
        Ok(Self {
            file: file.transpose()?,
        })
    }

    /// Adds a figure.
    pub(super) fn add(
        &mut self,
        (backend, ranks, round): (Backend, usize, u32),
        contender: Contender,
        figure: &Figure,
    ) -> Result<(), String> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let line = line((backend, ranks, round), contender, figure);
        writeln!(file, "{line}").map_err(|why| format!("{}: {why}", path.display()))
    }
}

fn line(
    (backend, ranks, round): (Backend, usize, u32),
    contender: Contender,
    figure: &Figure,
) -> String {
    let Figure {
        row,
        calls,
        median,
        p99,
        span,
    } = figure;
    let span = span.map_or_else(String::new, |span| span.to_string());
    let (backend, contender) = (backend.name(), contender.name());
    let (call, bytes) = (row.call(), row.bytes);
    format!("{backend},{ranks},{round},{contender},{call},{bytes},{calls},{median},{p99},{span}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_value_for_every_column() {
        let figure = Figure::read("timing,broadcast,8,70,1.5,2.25,3.5").unwrap();
        let line = line((Backend::Tcp, 4, 2), Contender::OpenMpi, &figure);
        assert_eq!(line, "tcp,4,2,openmpi,broadcast,8,70,1.5,2.25,3.5");
        assert_eq!(line.split(',').count(), HEAD.split(',').count());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_at_once() {
        let folder = std::env::temp_dir();
        let error = Record::create(Some(&folder)).unwrap_err();
        assert!(error.contains(&folder.display().to_string()), "{error}");
    }
}
