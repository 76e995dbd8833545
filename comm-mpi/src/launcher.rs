//! What the launcher announced: N silent worlds of one rank each are the most common accident.

use std::collections::BTreeMap;

use comm_kit::{config, launcher};

use crate::error::InitError;

/// Reads the variables in which launchers announce ranks.
pub(crate) fn environment() -> Result<BTreeMap<String, String>, InitError> {
    config::environment(&launcher::variables().collect::<Vec<_>>())
}

/// Rejects a world of one rank if a launcher started more, or did not announce how many.
///
/// A program under the `mpiexec` of another MPI does not recognise its launcher, so every rank starts alone
/// and computes everything.
pub(crate) fn check(size: usize, variables: &BTreeMap<String, String>) -> Result<(), InitError> {
    if size != 1 {
        return Ok(());
    }
    let Some(announced) = launcher::announced(variables)? else {
        return Ok(());
    };
    let name = announced.variable;
    let said = match announced.ranks {
        Some(ranks) => format!("{name} announces {ranks} ranks"),
        None => format!("{name} announces a rank, and no variable the size of the job"),
    };
    let message = format!(
        "{said}, but MPI found one: was it started by another MPI's mpiexec? use the mpiexec of the MPI that \
         this program was built with (srun: --mpi=pmix or --mpi=pmi2); if the job has one rank, set WORLD_SIZE=1 or \
         unset {name}"
    );
    Err(InitError::failed(&[name], message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(size: usize, pairs: &[(&str, &str)]) -> Result<(), InitError> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        check(size, &pairs.iter().map(owned).collect())
    }

    #[test]
    fn one_rank_where_more_were_announced_is_refused() {
        for pairs in [
            &[("PMI_SIZE", "4")][..],
            &[("OMPI_COMM_WORLD_SIZE", "2")],
            &[("MPI_LOCALNRANKS", "3")],
            &[("SLURM_STEP_NUM_TASKS", "16"), ("SLURM_STEP_ID", "0")],
            &[("PMIX_RANK", "0")],
            &[("FLUX_JOB_SIZE", "2")],
            &[("WORLD_SIZE", "2"), ("RANK", "0")],
            &[("COBRE_TCP_SIZE", "2")],
        ] {
            let error = announced(1, pairs).unwrap_err();
            assert_eq!(error.variables, [pairs[0].0]);
            assert!(error.message.contains("another MPI's mpiexec"), "{error}");
        }
    }

    #[test]
    fn what_fits_is_fine() {
        assert_eq!(announced(1, &[]), Ok(()));
        assert_eq!(
            announced(1, &[("PMI_RANK", "0"), ("PMI_SIZE", "1")]),
            Ok(())
        );
        assert_eq!(announced(4, &[("PMI_SIZE", "4")]), Ok(()));
    }

    #[test]
    fn a_batch_script_is_no_step() {
        let batch = &[("SLURM_STEP_NUM_TASKS", "16"), ("SLURM_STEP_ID", "batch")];
        assert_eq!(announced(1, batch), Ok(()));
    }
}
