//! The modules at the root of a crate, and those inside of some modules, depend on each other in one
//! direction.
//!
//! Dependencies are read from paths: `crate::name`, `use crate::{…}` and chains of `super` that
//! reach the root, and of the modules inside of `outer` also `crate::outer::name`. Names that the root
//! imports or re-exports count as those of the module they come from. Test code is not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::source::Source;
use super::{LAYERED, Tree};

pub(super) fn check(tree: &Tree) -> Vec<String> {
    LAYERED.iter().flat_map(|name| cycles(tree, name)).collect()
}

/// The cycles among the modules of a crate, or of `crate::module`.
pub(super) fn cycles(tree: &Tree, name: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let graph = of(tree, name);
    for cycle in graph.cycles() {
        findings.push(format!("{name}: cycle of modules: {}", cycle.join(", ")));
        findings.extend(graph.edges_within(&cycle).map(|edge| format!("  {edge}")));
    }
    findings
}

/// The graph of the modules at the root of a crate, or inside of `crate::module`.
pub(super) fn of(tree: &Tree, name: &str) -> Graph {
    let (name, outer) = name.split_once("::").unwrap_or((name, ""));
    let (folder, root, start) = match outer {
        "" => (format!("crates/{name}/src/"), "lib.rs".to_owned(), "crate::".to_owned()),
        outer => {
            let folder = format!("crates/{name}/src/{}/", outer.replace("::", "/"));
            let root = folder.trim_end_matches('/').to_owned() + ".rs";
            (folder, root, format!("crate::{outer}::"))
        }
    };
    let inside = tree.sources.iter().filter(|source| source.is_rust() && !source.is_test());
    let sources: Vec<(&str, &Source)> =
        inside.filter_map(|it| it.path.strip_prefix(&folder).map(|path| (path, it))).collect();
    let root =
        tree.sources.iter().find(|it| it.path == root || it.path == format!("{folder}{root}"));
    let imported = root.map(|source| imports(source.code())).unwrap_or_default();
    let modules: BTreeSet<&str> =
        sources.iter().map(|(path, _)| module(path)).filter(|name| *name != "lib").collect();
    let mut graph = Graph::default();
    for (path, source) in &sources {
        let from = module(path);
        if from == "lib" {
            continue;
        }
        graph.add_node(from);
        for name in paths(source.code(), &start, depth(path)) {
            let to = imported.get(&name).map_or(name.as_str(), String::as_str);
            if to != from && modules.contains(to) {
                graph.add_edge(from, to, path);
            }
        }
    }
    graph
}

/// The module at the root that a file belongs to.
fn module(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// How many `super::` lead from a file to the root.
fn depth(path: &str) -> usize {
    path.split('/').count()
}

/// What `use module::{A, B}` of the root makes of a name: the module it comes from.
fn imports(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let root: String = root.lines().map(|line| without_comment(line).to_owned() + "\n").collect();
    for statement in root.split(';') {
        let Some((_, path)) = statement.split_once("use ") else { continue };
        let path = path.trim_start().trim_start_matches("self::");
        let Some((module, rest)) = path.split_once("::") else { continue };
        if module == "crate" {
            // A list of names that other statements have imported, such as a prelude.
            continue;
        }
        let listed =
            rest.split([',', '{', '}']).map(|name| name.rsplit("::").next().unwrap_or(name));
        for name in listed.map(|name| name.split(" as ").last().unwrap_or(name).trim()) {
            names.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    names
}

/// The first segments of all paths that begin at the root, which is `start` or `depth` times `super`.
pub(super) fn paths(code: &str, start: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let code: String = code.lines().map(|line| without_comment(line).to_owned() + "\n").collect();
    for start in [start.to_owned(), "super::".repeat(depth)] {
        for (index, _) in code.match_indices(&start) {
            let before = code[..index].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || "_:$".contains(letter)) {
                continue;
            }
            let rest = &code[index + start.len()..];
            match rest.strip_prefix('{') {
                Some(list) => found.extend(heads(list)),
                None => found.extend(identifier(rest)),
            }
        }
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

/// The first segments of a list in braces, which may nest.
fn heads(list: &str) -> Vec<String> {
    let (mut heads, mut depth, mut start) = (Vec::new(), 0_usize, true);
    for (index, letter) in list.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            letter if start && !letter.is_whitespace() => {
                heads.extend(identifier(&list[index..]));
                start = false;
            }
            _ => {}
        }
    }
    heads
}
