//! A policy in a file: a later run can continue from it, with any backend and any number of ranks.
//!
//! ```text
//! "SDDPcut1", fingerprint of the case, iterations, stages, plants, cuts by stage, numbers of the policy, hash of all before
//! ```
//!
//! Every field has 8 bytes, little-endian. A new file is written beside the old one, synchronised, then renamed over it, so there is
//! always a complete file, the old one or the new one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::cuts::Cuts;
use super::hash::Hash;
use super::model::{Case, index};
use super::policy::Policy;

const MAGIC: u64 = u64::from_le_bytes(*b"SDDPcut1");

/// Writes the bytes of a policy.
pub(crate) fn encode(policy: &Policy, case: &Case<'_>) -> Vec<u8> {
    let width = Cuts::width(case.plants.len());
    let mut words = vec![
        MAGIC,
        case.fingerprint(),
        policy.iterations() as u64,
        case.stages() as u64,
        case.plants.len() as u64,
    ];
    words.extend(policy.cuts.iter().map(|cuts| cuts.len() as u64));
    words.extend(policy.numbers().map(f64::to_bits));
    debug_assert_eq!(policy.cuts[0].numbers().len() % width, 0);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut hash = Hash::new();
    hash.bytes(&bytes);
    bytes.extend(hash.finish().to_le_bytes());
    bytes
}

/// Reads the bytes of a policy of this case.
///
/// # Errors
///
/// Returns what is wrong with the bytes.
pub(crate) fn decode(bytes: &[u8], case: &Case<'_>) -> Result<Policy, &'static str> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let Some((&hash, words)) = words.split_last() else {
        return Err("it is empty");
    };
    if words.first() != Some(&MAGIC) {
        return Err("it is not a checkpoint of this program");
    }
    let mut actual = Hash::new();
    actual.bytes(&bytes[..words.len() * 8]);
    if !rest.is_empty() || actual.finish() != hash {
        return Err("it is damaged or cut off");
    }
    let (stages, plants) = (case.stages(), case.plants.len());
    let (Some(&[_, fingerprint, iterations, ..]), Some(counts)) =
        (words.first_chunk::<5>(), words.get(5..5 + stages))
    else {
        return Err("it belongs to another case; use the options it was written with");
    };
    if fingerprint != case.fingerprint() {
        return Err("it belongs to another case; use the options it was written with");
    }
    let mut numbers = words[5 + stages..].iter().map(|word| f64::from_bits(*word));
    let mut take = |count: usize| -> Result<Vec<f64>, &'static str> {
        let taken: Vec<f64> = numbers.by_ref().take(count).collect();
        if taken.len() == count {
            Ok(taken)
        } else {
            Err("it is damaged: numbers are missing")
        }
    };
    let mut policy = Policy::new(stages, plants);
    policy.lower = take(index(iterations))?;
    policy.upper = take(index(iterations))?;
    policy.spread = take(index(iterations))?;
    for (cuts, &count) in policy.cuts.iter_mut().zip(counts) {
        cuts.extend(&take(index(count).saturating_mul(Cuts::width(plants)))?);
    }
    Ok(policy)
}

/// Writes a file atomically.
///
/// # Errors
///
/// Returns the system's error and what to do.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let beside = beside(path);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        sync_folder(path)
    });
    written.map_err(|why| {
        // The old checkpoint stays; the incomplete file is useless.
        let _ = fs::remove_file(&beside);
        format!(
            "the checkpoint {} cannot be written: {why}; choose another --checkpoint",
            path.display()
        )
    })
}

/// Removes a file, if it exists.
///
/// # Errors
///
/// Returns the system's error and what to do.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(why) if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(format!(
                "the old checkpoint {} cannot be removed: {why}; choose another --checkpoint",
                path.display()
            ))
        }
        _ => Ok(()),
    }
}

/// Reads a file.
///
/// # Errors
///
/// Returns the system's error and what to do.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|why| {
        format!(
            "the checkpoint {} cannot be read: {why}; start without --resume",
            path.display()
        )
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Writes the new name to the disk, so that it survives a loss of power.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}
