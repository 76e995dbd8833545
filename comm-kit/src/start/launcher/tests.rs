use rstest::rstest;

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

fn found(pairs: &[(&str, &str)]) -> Option<(&'static str, Option<usize>)> {
    let announced = announced(&map(pairs)).expect("numbers");
    announced.map(|announced| (announced.variable, announced.ranks))
}

#[rstest]
#[case("PMI_RANK", "PMI_SIZE")]
#[case("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")]
#[case("MPI_LOCALRANKID", "MPI_LOCALNRANKS")]
#[case("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE")]
#[case("FLUX_TASK_RANK", "FLUX_JOB_SIZE")]
#[case("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE")]
#[case("RANK", "WORLD_SIZE")]
#[case("COBRE_TCP_RANK", "COBRE_TCP_SIZE")]
#[case("COBRE_SHM_RANK", "COBRE_SHM_SIZE")]
fn more_than_one_rank_is_announced(#[case] rank: &'static str, #[case] size: &'static str) {
    assert_eq!(found(&[(size, "4")]), Some((size, Some(4))));
    assert_eq!(found(&[(rank, "0"), (size, "4")]), Some((size, Some(4))));
    assert_eq!(found(&[(rank, "3")]), Some((rank, None)));
    assert_eq!(found(&[(rank, "0")]), Some((rank, None)), "rank 0 included");
    assert_eq!(found(&[(rank, "0"), (size, "1")]), None);
    assert_eq!(found(&[(rank, " "), (size, "")]), None, "blank is unset");
}

#[rstest]
#[case("PMIX_RANK")]
#[case("PALS_RANKID")]
#[case("ALPS_APP_PE")]
#[case("JOB_COMPLETION_INDEX")]
fn a_rank_whose_launcher_tells_no_size_is_announced(#[case] rank: &'static str) {
    for number in ["0", "5"] {
        assert_eq!(found(&[(rank, number)]), Some((rank, None)));
    }
    // Somebody else knows that it is alone.
    assert_eq!(found(&[(rank, "0"), ("WORLD_SIZE", "1")]), None);
    assert_eq!(
        found(&[(rank, "5"), ("WORLD_SIZE", "1")]),
        Some((rank, None))
    );
}

#[rstest]
#[case::step("0", true)]
#[case::last("4294967279", true)]
#[case::reserved("4294967280", false)]
#[case::batch("batch", false)]
#[case::batch_number("4294967291", false)]
fn only_a_step_of_slurm_has_ranks(#[case] step: &str, #[case] counts: bool) {
    let variables = [
        ("SLURM_PROCID", "0"),
        ("SLURM_STEP_NUM_TASKS", "16"),
        ("SLURM_STEP_ID", step),
    ];
    let expected = counts.then_some(("SLURM_STEP_NUM_TASKS", Some(16)));
    assert_eq!(found(&variables), expected);
    assert_eq!(ALL[7].sign(&map(&variables)).is_some(), counts);
    assert_eq!(found(&variables[..2]), None, "no step at all");
}

#[test]
fn what_is_no_number_is_said() {
    let error = announced(&map(&[("PMI_SIZE", "many")])).unwrap_err();
    assert_eq!(error.variables, ["PMI_SIZE"]);
    assert_eq!(
        error.message,
        "PMI_SIZE=\"many\" is not a number; correct or unset it"
    );
}

#[test]
fn no_variable_stands_twice() {
    let mut names: Vec<_> = variables().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
