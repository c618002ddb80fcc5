//! `evenkeel image`.

use std::process::Command;

use crate::support::{TempDir, run};

/// Compiles a program.
fn compile(dir: &TempDir, flags: &[&str]) {
    let source = dir.write("main.rs", "fn main() { println!(\"started\") }\n");
    let mut rustc = Command::new("rustc");
    rustc.arg(source).args(flags).args(["-o", "greeter"]).current_dir(&dir.0);
    assert!(rustc.status().unwrap().success());
}

#[test]
fn image_has_a_layer_with_the_executable() {
    let dir = TempDir::new("image");
    compile(&dir, &["-C", "target-feature=+crt-static"]);
    let arguments = ["image", "--binary", "greeter", "--tag", "registry.example/greeter:1.0"];
    let output = run(&dir.0, &arguments).success();
    assert!(output.stderr.contains("Wrote greeter.tar ("), "{output:?}");
    assert!(output.stderr.contains("registry.example/greeter:1.0 for linux/"), "{output:?}");

    let unpack = |archive: &str, to: &str| {
        std::fs::create_dir_all(dir.0.join(to)).unwrap();
        let mut tar = Command::new("tar");
        tar.args(["-xf", archive, "-C", to]).current_dir(&dir.0);
        assert!(tar.status().unwrap().success());
    };
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(dir.0.join(path)).unwrap()).unwrap()
    };
    unpack("greeter.tar", "image");
    let digest = |value: &serde_json::Value| {
        format!("image/blobs/{}", value["digest"].as_str().unwrap().replace(':', "/"))
    };
    let manifest = json(&digest(&json("image/index.json")["manifests"][0]));
    let config = json(&digest(&manifest["config"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    let layer = digest(&manifest["layers"][0]);
    assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
    let docker = json("image/manifest.json");
    assert_eq!(docker[0]["RepoTags"][0], "registry.example/greeter:1.0");
    assert_eq!(format!("image/{}", docker[0]["Layers"][0].as_str().unwrap()), layer);

    unpack(&layer, "root");
    let entrypoint = config["config"]["Entrypoint"][0].as_str().unwrap();
    let started = Command::new(dir.0.join("root").join(&entrypoint[1..])).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&started.stdout), "started\n");
}

#[test]
fn executables_that_need_libraries_are_rejected() {
    let dir = TempDir::new("dynamic");
    compile(&dir, &[]);
    let output = run(&dir.0, &["image", "--binary", "greeter"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("is dynamically linked"), "{output:?}");
    assert!(!dir.0.join("greeter.tar").exists());
}
