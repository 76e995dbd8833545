//! The ranks' output, through real pipes.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::thread;

use common::{Folder, Starter, comm_run, eventually, fresh_mark, gone};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn every_line_has_its_rank_in_front_and_stays_in_its_stream() {
    let ended = Starter::shell(3, "echo out $RANK; echo; echo err $RANK >&2; printf tail").end();
    assert_eq!(ended.code(), 0);
    for rank in 0..3 {
        let of = |lines: &[String]| -> Vec<String> {
            let prefix = format!("[{rank}] ");
            lines
                .iter()
                .filter_map(|line| Some(line.strip_prefix(&prefix)?.to_owned()))
                .collect()
        };
        assert_eq!(
            of(&ended.stdout),
            [format!("out {rank}"), String::new(), "tail".into()]
        );
        assert_eq!(of(&ended.stderr), [format!("err {rank}")]);
    }
    assert_eq!((ended.stdout.len(), ended.stderr.len()), (9, 3));
}

#[test]
fn colours_are_as_the_environment_asks() {
    let ended = |variables: &[(&str, &str)]| {
        let mark = fresh_mark();
        let script = "echo out; echo err >&2; exit 1";
        let mut command = comm_run(&["-n", "1", "--", "sh", "-c", script], &mark);
        command.envs(variables.iter().copied());
        Starter::of(command, mark).end()
    };
    let forced = ended(&[("CLICOLOR_FORCE", "1")]);
    assert_eq!(forced.stdout, ["\x1b[31m[0]\x1b[0m out"]);
    assert_eq!(forced.stderr[0], "\x1b[31m[0]\x1b[0m err");
    assert!(forced.says("\x1b[1mcomm-run:\x1b[0m rank 0 exited with code 1"));
    // Without CLICOLOR_FORCE, or with NO_COLOR, and without a terminal.
    for plain in [
        ended(&[]),
        ended(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]),
    ] {
        assert_eq!(plain.stdout, ["[0] out"]);
        assert_eq!(plain.stderr[0], "[0] err");
        assert!(
            plain.says("comm-run: rank 0 exited with code 1"),
            "{plain:?}"
        );
    }
}

#[test]
fn ranks_read_nothing_and_find_their_variables() {
    let script = "cat; echo $COBRE_COMM_BACKEND $COBRE_SHM_RANK/$COBRE_SHM_SIZE $RANK/$WORLD_SIZE \
                  $LOCAL_RANK/$LOCAL_WORLD_SIZE ${PMI_RANK-none} $COBRE_SHM_NAME $COBRE_JOB_ID";
    let mark = fresh_mark();
    let mut command = comm_run(&["-n", "1", "--", "sh", "-c", script], &mark);
    command.env("PMI_RANK", "4").env("COBRE_SHM_RANK", "8");
    let ended = Starter::of(command, mark).end();
    let (start, job) = ended.stdout[0].rsplit_once(' ').unwrap();
    assert_eq!(start, format!("[0] shm 0/1 0/1 0/1 none cobre-{job}"));
    assert_eq!(job.len(), 20);
}

#[test]
fn ten_megabytes_per_rank_come_out_whole_and_unmixed() {
    // Numbered lines of uneven length, and one line of 2 MB in the middle.
    let script = "awk -v r=$RANK 'BEGIN { for (n = 0; n < 120000; n++) { \
                  s = \"\"; for (k = 0; k < n % 7; k++) s = s \"xxxxxxxxxxxxxxxxxxxxxxx\"; \
                  printf \"%d %d %s\\n\", r, n, s; \
                  if (n == 60000) { for (k = 0; k < 20000; k++) printf \"%0100d\", 0; print \"\" } } }'";
    let mark = fresh_mark();
    let mut child = comm_run(&["-n", "3", "--", "sh", "-c", script], &mark)
        .spawn()
        .unwrap();
    let mut next = [0_usize; 3];
    let mut bytes = 0;
    for line in BufReader::with_capacity(1 << 16, child.stdout.take().unwrap()).split(b'\n') {
        let line = line.unwrap();
        bytes += line.len();
        let rank = usize::from(line[1] - b'0');
        let text = &line[4..];
        if text.len() == 2_000_000 {
            assert!(text.iter().all(|&byte| byte == b'0') && next[rank] == 60_001);
            continue;
        }
        let n = next[rank];
        let expected = format!("[{rank}] {rank} {n} {}", "x".repeat(23 * (n % 7)));
        assert!(
            line == expected.as_bytes(),
            "{} is not {expected}",
            String::from_utf8_lossy(&line)
        );
        next[rank] += 1;
    }
    assert_eq!(next, [120_000; 3]);
    assert!(bytes > 30_000_000, "{bytes}");
    assert!(child.wait().unwrap().success());
    gone(&mark);
}

#[test]
fn a_reader_that_comes_late_gets_everything() {
    let mark = fresh_mark();
    let done = std::env::temp_dir().join(format!("comm-run-test-{mark}"));
    let script = "seq 1 100000; : > $DONE.$RANK";
    let mut command = comm_run(&["-n", "2", "--", "sh", "-c", script], &mark);
    let mut child = command.env("DONE", &done).spawn().unwrap();
    // The output fits into the queue, so the ranks end before anything is read; the launcher must wait
    // for the reader.
    for rank in ["0", "1"] {
        let file = done.with_extension(rank);
        eventually("the rank has written everything", || {
            std::fs::remove_file(&file).is_ok()
        });
    }
    assert!(child.try_wait().unwrap().is_none());
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text.lines().count(), 200_000);
    assert!(child.wait().unwrap().success());
    gone(&mark);
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let mark = fresh_mark();
    let mut child = comm_run(&["-n", "3", "--", "yes"], &mark).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.ends_with("] y\n"), "{line}");
    // The reader is dropped: `comm-run .. | head -1`.
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(141));
    gone(&mark);
}

#[test]
fn a_reader_that_stands_still_cannot_keep_a_stopped_job() {
    let mark = fresh_mark();
    let mut child = comm_run(&["-n", "2", "--", "yes"], &mark).spawn().unwrap();
    let mut held = BufReader::new(child.stdout.take().unwrap());
    held.read_line(&mut String::new()).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    gone(&mark);
    drop(held);
}

#[test]
fn a_process_that_left_the_group_with_the_pipe_is_not_waited_for() {
    let mark = fresh_mark();
    // The process has left the group on purpose and is not ended.
    let folder = Folder::new();
    let out = folder.fifo("out");
    let script = format!(
        "setsid sh -c 'echo out; echo >{0}; exec sleep 1000' & echo ready; read out <{0}",
        out.display()
    );
    let script = &script;
    let mut child = comm_run(&["-n", "1", "--", "sh", "-c", script], &mark)
        .spawn()
        .unwrap();
    let reader = thread::spawn({
        let stdout = child.stdout.take().unwrap();
        move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .collect::<Vec<_>>()
        }
    });
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(common::kill_marked(&mark), 1);
    assert!(reader.join().unwrap().contains(&"[0] ready".to_owned()));
}
