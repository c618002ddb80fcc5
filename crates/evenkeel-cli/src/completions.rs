//! `evenkeel completions`: scripts that complete commands and flags in a shell.
//!
//! They are generated from the definition of the command line, as lists of words for each command.

use clap::{Args, Command, ValueEnum};

use crate::output;

#[derive(Args)]
#[command(after_help = "\
Examples:
  evenkeel completions bash > evenkeel.bash
  evenkeel completions fish > evenkeel.fish")]
pub(crate) struct Completions {
    /// Shell to complete in
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    /// Source it in ~/.bashrc
    Bash,
    /// Source it in ~/.zshrc, after compinit
    Zsh,
    /// Write it to ~/.config/fish/completions/evenkeel.fish
    Fish,
}

pub(crate) fn run(completions: &Completions, mut command: Command) -> anyhow::Result<()> {
    command.build();
    let mut levels = Vec::new();
    collect(&command, &mut Vec::new(), &mut levels);
    output::print(&match completions.shell {
        Shell::Bash => bash(&levels),
        Shell::Zsh => format!("autoload -U +X bashcompinit && bashcompinit\n{}", bash(&levels)),
        Shell::Fish => fish(&levels),
    })
}

/// The words after a command.
struct Level {
    /// The names of the command and those above it, without the program.
    path: Vec<String>,
    commands: Vec<(String, String)>,
    flags: Vec<String>,
}

fn collect(command: &Command, path: &mut Vec<String>, levels: &mut Vec<Level>) {
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    let about = |it: &Command| it.get_about().map(ToString::to_string).unwrap_or_default();
    let flags = command.get_arguments().filter(|it| !it.is_hide_set());
    levels.push(Level {
        path: path.clone(),
        commands: commands.map(|it| (it.get_name().to_owned(), about(it))).collect(),
        flags: flags.filter_map(|it| Some(format!("--{}", it.get_long()?))).collect(),
    });
    for inner in command.get_subcommands().filter(|it| it.get_name() != "help") {
        path.push(inner.get_name().to_owned());
        collect(inner, path, levels);
        path.pop();
    }
}

fn bash(levels: &[Level]) -> String {
    let mut text = "\
_evenkeel() {
    local word path= words
    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do
        case $word in -*) ;; *) path=\"$path $word\" ;; esac
    done
    case $path in
"
    .to_owned();
    // The longest path first: arguments of a command follow its name.
    for level in levels.iter().rev() {
        let pattern = match level.path.is_empty() {
            true => "*".to_owned(),
            false => format!("\" {}\"*", level.path.join(" ")),
        };
        let commands = level.commands.iter().map(|(name, _)| name.as_str());
        let words: Vec<&str> = commands.chain(level.flags.iter().map(String::as_str)).collect();
        text.push_str(&format!("    {pattern}) words=\"{}\" ;;\n", words.join(" ")));
    }
    text.push_str(
        "    esac
    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))
}
complete -o default -F _evenkeel evenkeel
",
    );
    text
}

fn fish(levels: &[Level]) -> String {
    let mut text = String::new();
    for level in levels {
        let seen = |name: &String| format!("__fish_seen_subcommand_from {name}");
        let condition = match level.path.is_empty() {
            true => "__fish_use_subcommand".to_owned(),
            false => level.path.iter().map(seen).collect::<Vec<_>>().join("; and "),
        };
        for (name, about) in &level.commands {
            let about = about.replace('\'', "\\'");
            text.push_str(&format!(
                "complete -c evenkeel -n '{condition}' -f -a {name} -d '{about}'\n"
            ));
        }
        for flag in &level.flags {
            let flag = flag.trim_start_matches('-');
            text.push_str(&format!("complete -c evenkeel -n '{condition}' -l {flag}\n"));
        }
    }
    text
}
