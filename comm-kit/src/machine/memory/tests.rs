use std::fs;
use std::path::Path;

use comm_api::CommError;
use rstest::rstest;

use super::{available, headroom, mem_available, room, zeroed_vec};

#[rstest]
#[case("MemTotal: 9 kB\nMemAvailable:   123 kB\n", Some(123 * 1024))]
#[case("MemTotal: 9 kB\n", None)]
#[case("MemAvailable: many kB\n", None)]
#[case("MemAvailable: 18446744073709551615 kB\n", None)]
fn reads_meminfo(#[case] text: &str, #[case] expected: Option<u64>) {
    assert_eq!(mem_available(text), expected);
}

fn group(root: &Path, path: &str, files: &[(&str, &str)]) {
    let folder = root.join(path);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn takes_the_tightest_group_on_the_way_up() {
    let mount = tempfile::tempdir().unwrap();
    let root = mount.path();
    group(
        root,
        "job/rank",
        &[("memory.max", "max\n"), ("memory.current", "500\n")],
    );
    let stat = "anon 100\ninactive_file 300\n";
    let tight = [
        ("memory.max", "1000\n"),
        ("memory.current", "900\n"),
        ("memory.stat", stat),
    ];
    group(root, "job", &tight);
    assert_eq!(headroom(root, "0::/job/rank\n"), Some(400));
    assert_eq!(headroom(root, "0::/job\n"), Some(400));
    assert_eq!(headroom(root, "0::/\n"), None, "the root has no limit");
    assert_eq!(headroom(root, "0::/of/the/host\n"), None);
    assert_eq!(headroom(root, ""), None);
    assert_eq!(headroom(root, "nonsense"), None);
}

#[test]
fn reads_version_1_and_falls_back_to_the_mounted_root() {
    let mount = tempfile::tempdir().unwrap();
    let files = [
        ("memory.limit_in_bytes", "1000"),
        ("memory.usage_in_bytes", "1200"),
    ];
    group(mount.path(), "memory", &files);
    let membership = "5:cpu:/x\n4:memory,hugetlb:/docker/abc\n";
    assert_eq!(
        headroom(mount.path(), membership),
        Some(0),
        "over its limit"
    );
}

#[test]
fn refuses_what_no_machine_has() {
    for count in [usize::MAX, isize::MAX.unsigned_abs() / 8 + 1, 1 << 50] {
        let bytes = count.saturating_mul(8);
        match zeroed_vec::<u64>(count) {
            Err(CommError::AllocationFailed {
                requested_bytes,
                message,
                ..
            }) => {
                assert_eq!(requested_bytes, bytes);
                if let Some(free) = message
                    .split(' ')
                    .next()
                    .and_then(|n| n.parse::<u64>().ok())
                {
                    assert!(free < bytes as u64);
                }
            }
            other => panic!("{count}: {:?}", other.map(|vec| vec.len())),
        }
    }
    assert!(room(usize::MAX).is_err());
}

#[test]
fn gives_zeroed_elements_of_any_kind() {
    assert_eq!(zeroed_vec::<u16>(3).unwrap(), [0; 3]);
    assert_eq!(zeroed_vec::<f64>(0).unwrap(), []);
    assert_eq!(zeroed_vec::<()>(usize::MAX).unwrap().len(), usize::MAX);
    assert_eq!(zeroed_vec::<u8>(2 << 20).unwrap(), vec![0; 2 << 20]);
}

#[test]
#[cfg(target_os = "linux")]
fn linux_says_what_is_available() {
    assert!(available().is_some_and(|free| free > 0));
}
