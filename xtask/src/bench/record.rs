//! The raw figures as a file of comma-separated values.

use std::fs::File;
use std::io::{Write, sink};
use std::path::Path;

use csv::Writer;

use super::Backend;

const COLUMNS: &str = "call,bytes,calls,median_us,p99_us,span_us";

/// Writes each figure at once, so that an interrupted run keeps the figures so far.
pub(super) struct Record(Writer<Box<dyn Write>>);

impl Record {
    /// Opens the file, if one is requested.
    pub(super) fn create(path: Option<&Path>) -> Result<Self, String> {
        let file: Box<dyn Write> = match path {
            Some(path) => {
                let file = File::create(path);
                Box::new(file.map_err(|why| format!("{}: {why}", path.display()))?)
            }
            None => Box::new(sink()),
        };
        let mut record = Self(Writer::from_writer(file));
        record.line(["backend", "ranks", "round", "contender"], COLUMNS)?;
        Ok(record)
    }

    /// Adds a figure of a contender in a round, with the values of its line.
    pub(super) fn add(
        &mut self,
        (backend, ranks, round): (Backend, usize, u32),
        who: &str,
        values: &str,
    ) -> Result<(), String> {
        let [ranks, round] = [ranks.to_string(), round.to_string()];
        self.line([backend.name(), &ranks, &round, who], values)
    }

    fn line(&mut self, place: [&str; 4], values: &str) -> Result<(), String> {
        let Self(file) = self;
        let written = file.write_record(place.into_iter().chain(values.split(',')));
        let written = written.and_then(|()| Ok(file.flush()?));
        written.map_err(|why| format!("the file of figures: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_there_at_once_and_has_a_value_for_every_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.csv");
        let mut record = Record::create(Some(&path)).unwrap();
        let values = "broadcast,8,70,1.500,2.250,3.500";
        record.add((Backend::Tcp, 4, 2), "openmpi", values).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.lines().last();
        assert_eq!(last, Some(&*format!("tcp,4,2,openmpi,{values}")), "{text}");
        // The csv crate rejects lines of different lengths.
        assert!(record.add((Backend::Tcp, 4, 2), "openmpi", "8").is_err());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_at_once() {
        let folder = std::env::temp_dir();
        let error = Record::create(Some(&folder)).err().unwrap();
        assert!(error.contains(&folder.display().to_string()), "{error}");
    }
}
