use super::*;
use crate::error::InitErrorKind;
use rstest::rstest;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs
        .iter()
        .map(|&(name, value)| (name.into(), value.into()));
    pairs.collect()
}

const GOOD: [(&str, &str); 3] = [(NAME, "job"), (RANK, "1"), (SIZE, "4")];

fn with(name: &str, value: &str) -> BTreeMap<String, String> {
    let mut map = map(&GOOD);
    map.insert(name.into(), value.into());
    map
}

#[test]
fn defaults() {
    let config = ShmConfig::from_map(&map(&GOOD)).expect("good");
    assert_eq!(config, ShmConfig::new("job", 1, 4));
    assert_eq!(config.timeout, Some(Duration::from_mins(1)));
    assert_eq!(config.connect_timeout, Duration::from_secs(30));
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let error = ShmConfig::from_map(&map(&[(RANK, "1"), (SIZE, " ")])).expect_err("missing");
    assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
    assert_eq!(error.variables, [NAME, SIZE]);
    assert!(
        error.message.contains(NAME) && error.message.contains(SIZE),
        "{error}"
    );
}

/// `shm_open` requires a leading slash, so people write one.
#[test]
fn one_slash_in_front_of_the_name_is_taken_off() {
    let config = ShmConfig::from_map(&with(NAME, "/job")).expect("good");
    assert_eq!(config.name, "job");
    assert_eq!(ShmConfig::new("/job", 1, 4), ShmConfig::new("job", 1, 4));
    for two in ["//job", "/", "/a/b"] {
        let error = ShmConfig::from_map(&with(NAME, two)).expect_err("no name");
        assert_eq!(error.variables, [NAME], "{two}");
    }
}

#[rstest]
#[case("2.5", Some(Duration::from_millis(2500)))]
#[case("0", None)]
#[case("0.0", None)]
#[case("", Some(Duration::from_mins(1)))]
fn timeouts(#[case] value: &str, #[case] timeout: Option<Duration>) {
    let config = ShmConfig::from_map(&with(TIMEOUT, value)).expect("good");
    assert_eq!(config.timeout, timeout);
}

#[rstest]
#[case("auto", OneCopy::Auto)]
#[case("1", OneCopy::On)]
#[case("0", OneCopy::Off)]
#[case(" ", OneCopy::Auto)]
fn whether_to_copy_once(#[case] value: &str, #[case] expected: OneCopy) {
    let config = ShmConfig::from_map(&with(ONE_COPY, value)).expect("good");
    assert_eq!(config.one_copy, expected);
}

#[test]
fn the_rest() {
    let mut map = with(CONNECT_TIMEOUT, "250");
    map.insert(JOB_ID.into(), "night run".into());
    let config = ShmConfig::from_map(&map).expect("good");
    assert_eq!(config.connect_timeout, Duration::from_millis(250));
    assert_eq!(config.job_id.as_deref(), Some("night run"));
}

#[rstest]
#[case(NAME, "a/b", &[NAME])]
#[case(NAME, "..", &[NAME])]
#[case(NAME, "a\0b", &[NAME])]
#[case(RANK, "4", &[RANK, SIZE])]
#[case(RANK, "-1", &[RANK])]
#[case(RANK, "one", &[RANK])]
#[case(SIZE, "0", &[SIZE])]
#[case(SIZE, "1025", &[SIZE])]
#[case(SIZE, "99999999999999999999999", &[SIZE])]
#[case(TIMEOUT, "-1", &[TIMEOUT])]
#[case(TIMEOUT, "NaN", &[TIMEOUT])]
#[case(TIMEOUT, "inf", &[TIMEOUT])]
#[case(TIMEOUT, "soon", &[TIMEOUT])]
#[case(CONNECT_TIMEOUT, "1.5", &[CONNECT_TIMEOUT])]
#[case(ONE_COPY, "yes", &[ONE_COPY])]
fn what_cannot_be_used(#[case] name: &str, #[case] value: &str, #[case] variables: &[&str]) {
    let error = ShmConfig::from_map(&with(name, value)).expect_err("not usable");
    assert_eq!(error.kind, InitErrorKind::InvalidConfiguration, "{error}");
    assert_eq!(error.variables, variables, "{error}");
    let shown = value.replace('\0', "\\0");
    assert!(
        error.message.contains(&shown),
        "{error} does not show {value}"
    );
}

#[test]
fn a_long_name_or_job_id() {
    for variable in [NAME, JOB_ID] {
        let error = ShmConfig::from_map(&with(variable, &"x".repeat(300))).expect_err("too long");
        assert_eq!(error.variables, [variable]);
        assert!(error.message.contains("300"), "{error}");
    }
}

#[test]
fn all_that_is_wrong_is_named_at_once() {
    let wrong = [(NAME, "a/b"), (RANK, "4"), (SIZE, "4"), (TIMEOUT, "soon")];
    let error = ShmConfig::from_map(&map(&wrong)).expect_err("not usable");
    assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
    assert_eq!(error.variables, [TIMEOUT, NAME, RANK, SIZE]);
    let error = ShmConfig::new("a/b", 4, 4).check().expect_err("not usable");
    assert_eq!(error.variables, [NAME, RANK, SIZE]);
    let error = ShmConfig::from_map(&map(&[(NAME, "a/b"), (RANK, "1")])).expect_err("missing");
    assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
    assert_eq!(error.variables, [SIZE, NAME]);
}
