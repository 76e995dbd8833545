//! All backends read variables alike, and one error reports all problems.

use std::collections::BTreeMap;
use std::time::Duration;

use comm_kit::config::{Faults, Reader, TIMEOUT, environment, fill};
use comm_kit::{InitError, InitErrorKind};
use rstest::rstest;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn reads_what_is_right() {
    let map = map(&[
        ("A", " x "),
        ("B", "7"),
        ("C", "0.25"),
        ("D", "1500"),
        ("E", "1"),
        ("F", " "),
    ]);
    let mut reader = Reader::new(&map);
    assert_eq!(reader.required("A"), Some("x"));
    assert_eq!(reader.required_number("B"), Some(7_u8));
    assert_eq!(reader.seconds("C"), Some(Duration::from_millis(250)));
    assert_eq!(reader.millis("D"), Some(Duration::from_millis(1500)));
    assert_eq!(reader.switch("E"), Some(true));
    assert_eq!(reader.text("F"), None, "blank is unset");
    assert_eq!(reader.number::<u8>("G"), None);
    assert_eq!(reader.finish(), Ok(()));
}

#[rstest]
#[case::number("-1")]
#[case::seconds("soon")]
#[case::nan("NaN")]
#[case::too_long("1e300")]
#[case::negative("-0.5")]
fn names_the_value_and_what_would_be_right(#[case] value: &str) {
    let map = map(&[("LIMIT", value)]);
    let mut reader = Reader::new(&map);
    assert_eq!(reader.number::<u32>("LIMIT"), None);
    assert_eq!(reader.seconds("LIMIT"), None);
    let error = reader.finish().unwrap_err();
    assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
    assert_eq!(error.variables, ["LIMIT"], "one fault per variable");
    assert!(
        error.message.contains(&format!("LIMIT is {value:?}")),
        "{error}"
    );
    assert!(error.message.contains("give a whole number"), "{error}");
}

#[test]
fn names_all_faults_at_once() {
    let map = map(&[("RANK", "3"), ("SWITCH", "yes")]);
    let mut reader = Reader::new(&map);
    assert_eq!(reader.required("NAME"), None);
    assert_eq!(reader.required_number("RANK"), Some(3));
    assert_eq!(reader.required_number::<usize>("SIZE"), None);
    assert_eq!(reader.switch("SWITCH"), None);
    let faults = reader.faults();
    faults.add(&["RANK", "SIZE"], "unheard: SIZE is missing anyway");
    let error = reader.finish().unwrap_err();
    assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
    assert_eq!(error.variables, ["NAME", "SIZE", "SWITCH"]);
    let text = error.to_string();
    assert!(
        text.starts_with("NAME, SIZE not set; start the ranks with comm-run"),
        "{text}"
    );
    assert!(text.contains("set NAME, RANK, SIZE yourself"), "{text}");
    assert!(
        text.contains("SWITCH is \"yes\"") && !text.contains("unheard"),
        "{text}"
    );
}

#[test]
fn takes_only_what_is_asked_for_from_the_environment() {
    let map = environment(&["PATH", "NO_SUCH_VARIABLE_IS_SET"]).unwrap();
    assert_eq!(map.keys().collect::<Vec<_>>(), ["PATH"]);
}

#[test]
fn an_error_is_its_message() {
    let error = InitError::failed(&["PORT"], "port 29500 is taken");
    assert_eq!(error.to_string(), "port 29500 is taken");
    assert_eq!(
        (error.kind, error.variables),
        (InitErrorKind::Failed, vec![String::from("PORT")])
    );
}

#[test]
fn a_timeout_has_a_default_and_0_is_for_ever() {
    let map = map(&[("A", "0"), ("B", "0.5")]);
    let mut reader = Reader::new(&map);
    assert_eq!(reader.timeout("A"), None);
    assert_eq!(reader.timeout("B"), Some(Duration::from_millis(500)));
    assert_eq!(reader.timeout("C"), Some(TIMEOUT));
    assert_eq!(reader.finish(), Ok(()));
}

#[rstest]
#[case::none(0, 0, "SIZE is 0; a job has 1 to 8 ranks")]
#[case::too_many(0, 9, "SIZE is 9; a job has 1 to 8 ranks")]
#[case::beyond(4, 4, "RANK is 4 and SIZE is 4; ranks go from 0 to 3")]
fn a_rank_lies_below_the_size(#[case] rank: usize, #[case] size: usize, #[case] message: &str) {
    let mut faults = Faults::default();
    faults.check_rank("RANK", rank, "SIZE", size, 8);
    assert_eq!(faults.finish().unwrap_err().message, message);
    let mut faults = Faults::default();
    faults.check_rank("RANK", 7, "SIZE", 8, 8);
    assert_eq!(faults.finish(), Ok(()));
}

#[test]
fn a_fault_of_no_variable_is_a_fault() {
    let mut faults = Faults::default();
    faults.add(&[], "the machine has no loopback");
    let error = faults.finish().unwrap_err();
    assert_eq!(error.message, "the machine has no loopback");
    assert!(error.variables.is_empty());
}

#[test]
fn what_is_empty_is_filled_and_what_has_a_value_stays() {
    let mut variables = map(&[("SET", "1"), ("EMPTY", ""), ("BLANK", " ")]);
    for name in ["SET", "EMPTY", "BLANK", "ABSENT"] {
        fill(&mut variables, name, "2");
    }
    let expected = [
        ("SET", "1"),
        ("EMPTY", "2"),
        ("BLANK", "2"),
        ("ABSENT", "2"),
    ];
    assert_eq!(variables, map(&expected));
}
