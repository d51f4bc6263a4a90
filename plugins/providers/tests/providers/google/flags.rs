//! The command line of `gke-gcloud-auth-plugin`.

use super::stage::Stage;

/// The flags that `gke-gcloud-auth-plugin --help` lists, each with a value. All are accepted.
const DOCUMENTED: &[&str] = &[
    "--account=a",
    "--add_dir_header",
    "--alsologtostderr",
    "--cluster=c",
    "--impersonate_service_account=a",
    "--location=l",
    "--log_backtrace_at=:0",
    "--log_dir=/tmp",
    "--log_file=/tmp/log",
    "--log_file_max_size=1800",
    "--logtostderr=true",
    "--one_output",
    "--project=p",
    "--skip_headers",
    "--skip_log_headers",
    "--stderrthreshold=2",
    "--use_application_default_credentials",
    "--use_edge_cloud",
    "-v4",
    "--v=4",
    "--vmodule=a=1",
    "--legacy_stderr_threshold_behavior=false",
];

#[test]
fn every_documented_flag_is_accepted() {
    let mut stage = Stage::new();
    stage.program("bin/gcloud", "exit 9");
    for flag in DOCUMENTED {
        let ended = stage.named("gke-gcloud-auth-plugin").args([flag]).run();
        let expected = match *flag {
            "--use_application_default_credentials" => "no Google credentials are configured",
            "--use_edge_cloud" => "needs `--project`, `--location` and `--cluster`",
            _ => "exit code 9",
        };
        assert!(ended.stderr.contains(expected), "`{flag}`: {ended:?}");
        assert!(!ended.stderr.contains("there is no flag"), "`{flag}`: {ended:?}");
    }
    for flag in ["--version", "--version=raw"] {
        let version = stage.named("gke-gcloud-auth-plugin").args([flag]).run().printed();
        assert!(version.starts_with("gke-gcloud-auth-plugin (Keyward) "), "{version}");
    }
    let help = stage.named("gke-gcloud-auth-plugin").args(["--help"]).run().printed();
    assert!(help.contains("--use_application_default_credentials"), "{help}");
}

#[test]
fn other_flags_and_values_are_refused_with_a_reason() {
    let stage = Stage::new();
    for (args, why) in [
        (&["--acount=a"][..], "there is `--account`"),
        (&["--source=file"], "`--source` is auto, adc or gcloud, not `file`"),
        (&["--source"], "needs a value"),
        (
            &["--use_edge_cloud", "--project=p", "--location=l", "--cluster=-c"],
            "a name, not a flag",
        ),
    ] {
        let ended = stage.named("keyward-gke").args(args).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
        let checked = stage.named("keyward-gke").args(args).args(["--check-arguments"]).run();
        assert_eq!(checked.code, Some(2), "{checked:?}");
    }
}
