//! The messages of `comm-run` about options of other launchers and about variables that it sets itself.
#![cfg(target_os = "linux")]

mod common;

use common::{Ended, Key, Starter, comm_run, fresh_mark, node};

fn refused(args: &[&str]) -> Ended {
    let ended = Starter::new(args).end();
    assert_eq!(ended.code(), 2, "{args:?}: {ended:?}");
    assert!(ended.stdout.is_empty(), "{args:?}: {ended:?}");
    ended
}

#[test]
fn an_option_that_does_not_exist_is_named_with_what_to_use() {
    for (words, says) in [
        (
            "--hostfile h -- true",
            &["no option --hostfile", "--nnodes"][..],
        ),
        ("--hostfile h true", &["no option --hostfile"]),
        ("--hostfile=h true", &["no option --hostfile", "--nnodes"]),
        ("-hosts a,b true", &["no option -hosts", "--nnodes"]),
        ("-np 4 true", &["no option -np", "-n N"]),
        ("-np4 true", &["-n N"]),
        ("--np 4 true", &["-n N"]),
        ("-genv A 1 true", &["no option -genv", "--env NAME=VALUE"]),
        ("-x A true", &["--env NAME=VALUE"]),
        ("--bind-to core true", &["--bind core"]),
        ("--tag-output true", &["leave it out"]),
        (
            "--timout 3 true",
            &["no option --timout", "did you mean --timeout?"],
        ),
        ("--log d true", &["did you mean --log-dir?"]),
        ("--backed tcp true", &["did you mean --backend?"]),
        (
            "--colour-of-the-sky true",
            &["no option --colour-of-the-sky", "--help"],
        ),
        ("-n 2 -z true", &["no option -z"]),
        (
            "-n 2 --verbose --nonsense -- true",
            &["no option --nonsense"],
        ),
    ] {
        let args: Vec<&str> = words.split(' ').collect();
        let ended = refused(&args);
        for part in says {
            assert!(ended.says(part), "{part} of {words}: {ended:?}");
        }
        assert!(!ended.says("cannot start"), "{words}: {ended:?}");
    }
}

#[test]
fn a_number_below_zero_is_refused_and_not_taken_for_an_option() {
    for (words, says) in [
        ("-n -1 true", "expected a number of ranks"),
        ("-n 1 --timeout -1 true", "a number of seconds, 0 or more"),
        ("-n 1 --grace -0.5 true", "a number of seconds, 0 or more"),
        ("-n 1 --max-restarts -1 true", "a whole number, 0 or more"),
        ("-n 1 --nnodes -2 true", "a whole number, 0 or more"),
        ("-n 1 --node-rank -1 true", "a whole number, 0 or more"),
    ] {
        let args: Vec<&str> = words.split(' ').collect();
        let ended = refused(&args);
        assert!(ended.says(says), "{words}: {ended:?}");
        assert!(!ended.says("unexpected argument"), "{words}: {ended:?}");
    }
}

#[test]
fn a_program_without_a_name_is_named_so() {
    let ended = Starter::new(&["-n", "1", "--", ""]).end();
    assert_eq!(ended.code(), 127, "{ended:?}");
    let says = "cannot start '': the name of the program is empty";
    assert!(ended.says(says), "{ended:?}");
}

#[test]
fn options_of_the_program_are_its_own() {
    for words in [
        "-n 1 -- printf %s,%s --hostfile -np",
        "-n 1 printf %s,%s --hostfile -np",
        "-n1 -v --timeout=9 --bind none printf %s,%s --hostfile -np",
        "--env A=-x -n 1 --timeout 9 printf %s,%s --hostfile -np",
    ] {
        let args: Vec<&str> = words.split(' ').collect();
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 0, "{words}: {ended:?}");
        assert_eq!(ended.stdout, ["[0] --hostfile,-np"], "{words}");
    }
    // After -- a program may be called anything.
    let ended = Starter::new(&["-n", "1", "--", "--hostfile"]).end();
    assert_eq!(ended.code(), 127, "{ended:?}");
}

#[test]
fn variables_reach_every_rank_and_win_over_inherited_ones() {
    let mark = fresh_mark();
    let show = "echo $COLOUR,$EMPTY,$COBRE_SHM_TIMEOUT_SECS,$PLAIN";
    let args = [
        "-n",
        "2",
        "--env",
        "COLOUR=deep blue",
        "--env",
        "EMPTY=",
        "--env=COBRE_SHM_TIMEOUT_SECS=7",
        "--",
        "sh",
        "-c",
        show,
    ];
    let mut command = comm_run(&args, &mark);
    command
        .env("COLOUR", "red")
        .env("EMPTY", "no")
        .env("PLAIN", "p");
    let mut ended = Starter::of(command, mark).end();
    ended.stdout.sort();
    assert_eq!(ended.stdout, ["[0] deep blue,,7,p", "[1] deep blue,,7,p"]);
    let ended = Starter::new(&["-n", "1", "--env", "A=b c", "--dry-run", "--", "true"]).end();
    assert!(ended.stdout.contains(&"  A='b c'".to_owned()), "{ended:?}");
    let ended = Starter::new(&[
        "-n",
        "1",
        "--backend",
        "mpi",
        "--env",
        "OMPI_MCA_btl=self",
        "--dry-run",
        "--",
        "true",
    ])
    .end();
    assert!(
        ended.stdout.contains(&"  OMPI_MCA_btl=self".to_owned()),
        "{ended:?}"
    );
}

#[test]
fn variables_of_the_launcher_and_words_that_are_none_are_refused() {
    for name in [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_PORT",
        "COBRE_SHM_RANK",
        "COBRE_SHM_NAME",
        "COBRE_TCP_RANK",
        "COBRE_TCP_SECRET",
        "COBRE_TCP_SECRET_FILE",
        "COBRE_TCP_LISTEN_FD",
        "COBRE_COMM_BACKEND",
        "COBRE_JOB_ID",
        "PMI_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "SLURM_PROCID",
    ] {
        let variable = format!("{name}=1");
        let ended = refused(&["-n", "2", "--env", &variable, "--", "true"]);
        assert!(ended.says(&format!("--env {name}: ")), "{ended:?}");
        assert!(ended.says("leave it out"), "{ended:?}");
        if name != "COBRE_JOB_ID" {
            refused(&[
                "-n",
                "2",
                "--backend",
                "mpi",
                "--dry-run",
                "--env",
                &variable,
                "--",
                "true",
            ]);
        }
    }
    for wrong in ["A", "=1", "1A=1", "A B=1", ""] {
        let ended = refused(&["-n", "2", "--env", wrong, "--", "true"]);
        assert!(ended.says("NAME=VALUE"), "{wrong}: {ended:?}");
    }
    // The machines cannot agree on a new id, so the user's id stays.
    let key = Key::new("secret", 0o600);
    let mut args = node("0", "127.0.0.1:29500", key.path());
    args.extend([
        "--env",
        "COBRE_JOB_ID=mine",
        "--",
        "sh",
        "-c",
        "echo $COBRE_JOB_ID",
    ]);
    let mut ended = Starter::new(&args).end();
    // Either rank may print first.
    ended.stdout.sort_unstable();
    assert_eq!(
        ended.stdout,
        ["[0] mine", "[1] mine"].map(String::from),
        "{ended:?}"
    );
}

#[test]
fn no_secret_of_another_job_reaches_the_ranks() {
    let script =
        "echo ${COBRE_TCP_SECRET_FILE-none} ${COBRE_TCP_LISTEN_FD-none} ${COBRE_JOB_ID:+id}";
    for backend in ["shm", "tcp"] {
        let mark = fresh_mark();
        let mut command = comm_run(
            &["-n", "2", "--backend", backend, "--", "sh", "-c", script],
            &mark,
        );
        command.env("COBRE_TCP_SECRET_FILE", "/etc/hostname");
        command.env("COBRE_TCP_SECRET", "inherited");
        let mut ended = Starter::of(command, mark).end();
        ended.stdout.sort();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(ended.stdout[0].starts_with("[0] none "), "{ended:?}");
        assert_eq!(ended.stdout[1], "[1] none none id", "{ended:?}");
    }
}

#[test]
fn a_variable_with_a_misspelt_name_is_warned_of() {
    for action in ["explain", "doctor"] {
        let mark = fresh_mark();
        let mut command = comm_run(&[action], &mark);
        command
            .env("COBRE_COM_BACKEND", "shm")
            .env("COBRE_SHM_TIMEOUT_SEC", "3");
        let ended = Starter::of(command, mark).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        for (wrong, right) in [
            ("COBRE_COM_BACKEND", "did you mean COBRE_COMM_BACKEND?"),
            (
                "COBRE_SHM_TIMEOUT_SEC",
                "did you mean COBRE_SHM_TIMEOUT_SECS?",
            ),
        ] {
            let warned = |line: &&String| {
                line.starts_with("warning") && line.contains(wrong) && line.contains(right)
            };
            assert_eq!(ended.stdout.iter().filter(warned).count(), 1, "{ended:?}");
        }
        let ended = Starter::new(&[action]).end();
        let wrong = |line: &String| line.contains("nothing reads it");
        assert!(!ended.stdout.iter().any(wrong), "{ended:?}");
    }
}

#[test]
fn a_job_warns_once_of_a_variable_with_a_misspelt_name() {
    let dry = ["-n", "3", "--backend", "mpi", "--dry-run", "--", "true"];
    for options in [
        &["-n", "3", "--", "true"][..],
        &["-n", "3", "--dry-run", "--", "true"],
        &dry,
    ] {
        let mark = fresh_mark();
        let given = [
            "--env",
            "COBRE_SHM_TIMEOUT_SEC=3",
            "--env",
            "COBRE_COM_BACKEND=shm",
        ];
        let mut command = comm_run(&[&given, options].concat(), &mark);
        command.env("COBRE_COM_BACKEND", "tcp");
        let ended = Starter::of(command, mark).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let expected = [
            "comm-run: warning: COBRE_COM_BACKEND is set, and nothing reads it; did you mean COBRE_COMM_BACKEND?",
            "comm-run: warning: COBRE_SHM_TIMEOUT_SEC is set, and nothing reads it; did you mean COBRE_SHM_TIMEOUT_SECS?",
        ];
        assert_eq!(ended.stderr, expected);
    }
}

#[test]
fn ended_ranks_are_listed_as_runs() {
    let script = "[ $RANK = 4 ] && { sleep 0.1; exit 3; }; exec sleep 60";
    let ended = Starter::shell(10, script).end();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.says("ended ranks 0-3, 5-9 with SIGTERM"), "{ended:?}");
}
