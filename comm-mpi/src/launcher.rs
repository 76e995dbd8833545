//! What the launcher announced: N silent worlds of one rank each are the most common accident.

use crate::error::InitError;

/// The variables in which launchers tell how many ranks they start.
const SIZES: [&str; 4] = [
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
];

/// Refuses a world of one rank where the launcher started more.
///
/// A program that runs under the `mpiexec` of another MPI than its own finds no launcher it
/// understands, so every rank comes up alone and computes everything.
pub(crate) fn check(
    size: usize,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), InitError> {
    if size != 1 {
        return Ok(());
    }
    // A batch script sees the variables of its allocation; a step of it has a number.
    let step = variable("SLURM_STEP_ID").is_some_and(|id| id.parse::<u32>().is_ok());
    for name in SIZES {
        if name.starts_with("SLURM") && !step {
            continue;
        }
        let announced = variable(name).and_then(|value| value.trim().parse::<usize>().ok());
        if let Some(announced) = announced.filter(|&announced| announced > 1) {
            return Err(InitError::failed(
                &[name],
                format!(
                    "{name} announces {announced} ranks and MPI found one: started by another \
                     MPI's mpiexec? use the one that belongs to the MPI this program was built \
                     with (srun: --mpi=pmix or --mpi=pmi2)"
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(size: usize, pairs: &'static [(&str, &str)]) -> Result<(), InitError> {
        check(size, |name| {
            let found = pairs.iter().find(|&&(key, _)| key == name);
            found.map(|&(_, value)| value.to_owned())
        })
    }

    #[test]
    fn one_rank_where_more_were_announced_is_refused() {
        for pairs in [
            &[("PMI_SIZE", "4")][..],
            &[("OMPI_COMM_WORLD_SIZE", "2")],
            &[("MPI_LOCALNRANKS", "3")],
            &[("SLURM_STEP_NUM_TASKS", "16"), ("SLURM_STEP_ID", "0")],
        ] {
            let error = announced(1, pairs).unwrap_err();
            assert_eq!(error.variables, [pairs[0].0]);
            assert!(error.message.contains("another MPI's mpiexec"), "{error}");
        }
    }

    #[test]
    fn what_fits_is_fine() {
        assert_eq!(announced(1, &[]), Ok(()));
        assert_eq!(announced(1, &[("PMI_SIZE", "1")]), Ok(()));
        assert_eq!(announced(4, &[("PMI_SIZE", "4")]), Ok(()));
        assert_eq!(announced(1, &[("PMI_SIZE", "many")]), Ok(()));
    }

    #[test]
    fn a_batch_script_is_no_step() {
        let batch = &[("SLURM_STEP_NUM_TASKS", "16"), ("SLURM_STEP_ID", "batch")];
        assert_eq!(announced(1, batch), Ok(()));
    }
}
