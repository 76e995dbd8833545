//! The place in a program where a call was made.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Mutex;

/// Names a line of a program: the file and the number.
///
/// One word, which points to an entry of a table that lives as long as the process. The table is accessed only when an error is
/// created; it holds up to 65,536 lines, and any further line is shown as `?:0`.
///
/// ```
/// use comm_api::Place;
///
/// let here = Place::caller();
/// assert_eq!(here.line(), line!() - 1);
/// assert_eq!(here.file(), file!());
/// assert_eq!(Place::new("src/solver.rs", 88).to_string(), "src/solver.rs:88");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(&'static Line);

#[derive(PartialEq, Eq, Hash)]
struct Line {
    file: &'static str,
    number: u32,
}

/// Returns the line of this thread's call in another language; `None` if it is not known.
type Teller = fn() -> Option<Place>;

thread_local! {
    static TELLER: Cell<Option<Teller>> = const { Cell::new(None) };
}

/// All lines by file. Locked with `try_lock` only, because it may be locked in a forked child.
static TABLE: Mutex<Table> = Mutex::new(Table {
    files: BTreeMap::new(),
    lines: 0,
});

/// The maximum number of lines that are kept.
const MOST: usize = 1 << 16;

static ELSEWHERE: Line = Line {
    file: "?",
    number: 0,
};

struct Table {
    files: BTreeMap<&'static str, BTreeMap<u32, &'static Line>>,
    lines: usize,
}

impl Place {
    /// Returns the place of this call. If the calling function has the attribute `track_caller`, returns the place where that function
    /// was called, and so on.
    #[cold]
    #[must_use]
    #[track_caller]
    pub fn caller() -> Self {
        Self::of(Location::caller())
    }

    /// Returns the place of a stored location, unless this thread runs a call inside [`told_by`](Self::told_by), which knows a
    /// better one.
    #[cold]
    #[must_use]
    pub fn of(location: &'static Location<'static>) -> Self {
        let told = TELLER.get().and_then(|tell| tell());
        told.unwrap_or_else(|| Self::find(location.file(), location.line(), || location.file()))
    }

    /// Names a line of a program in another language.
    #[cold]
    #[must_use]
    pub fn new(file: &str, line: u32) -> Self {
        Self::find(file, line, || String::leak(file.to_owned()))
    }

    /// Makes a call for a program in another language: if an error needs the place, `teller` returns the line of that program
    /// at which this thread is.
    #[inline]
    pub fn told_by<T>(teller: fn() -> Option<Self>, call: impl FnOnce() -> T) -> T {
        let _before = Before(TELLER.replace(Some(teller)));
        call()
    }

    /// Returns the file, as the compiler or the interpreter names it.
    #[must_use]
    pub const fn file(self) -> &'static str {
        self.0.file
    }

    /// Returns the number of the line, from 1 on.
    #[must_use]
    pub const fn line(self) -> u32 {
        self.0.number
    }

    fn find(file: &str, number: u32, keep: impl FnOnce() -> &'static str) -> Self {
        let Ok(mut table) = TABLE.try_lock() else {
            // Another thread holds the lock, or did when this process was forked: returns an entry that is not shared.
            let file = keep();
            return Self(Box::leak(Box::new(Line { file, number })));
        };
        if let Some(line) = table.files.get(file).and_then(|lines| lines.get(&number)) {
            return Self(line);
        }
        if table.lines == MOST {
            return Self(&ELSEWHERE);
        }
        table.lines += 1;
        let known = table.files.get_key_value(file).map(|(&known, _)| known);
        let file = known.unwrap_or_else(keep);
        let line = Box::leak(Box::new(Line { file, number }));
        table.files.entry(file).or_default().insert(number, line);
        Self(line)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file, self.0.number)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Restores the teller of the outer call, also when a panic unwinds.
struct Before(Option<Teller>);

impl Drop for Before {
    #[inline]
    fn drop(&mut self) {
        TELLER.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_entry() {
        let (one, again) = (Place::new("a.py", 1), Place::new("a.py", 1));
        assert_eq!(one, again);
        assert_ne!(one, Place::new("a.py", 2));
        assert_ne!(one, Place::new("b.py", 1));
        assert_eq!(size_of::<Option<Place>>(), size_of::<usize>());
    }

    #[test]
    fn another_language_knows_better_until_its_call_ends() {
        let python = || Some(Place::new("train.py", 7));
        let told = Place::told_by(python, Place::caller);
        assert_eq!(told, Place::new("train.py", 7));
        let unwound = std::panic::catch_unwind(|| Place::told_by(python, || panic!("inside")));
        assert!(unwound.is_err());
        assert_eq!(Place::caller().file(), file!());
        let silent = Place::told_by(|| None, || Place::caller());
        assert_eq!(silent.file(), file!());
    }

    #[test]
    fn a_table_that_is_locked_is_not_waited_for() {
        let free = Place::new("c.py", 3);
        let table = TABLE.lock();
        assert_eq!(Place::new("c.py", 3), free);
        drop(table);
    }
}
