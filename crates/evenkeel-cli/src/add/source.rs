//! A Rust source file that is changed only by insertions at places of its syntax tree: all other
//! bytes stay as they are.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

use super::rustfmt;

/// The byte order mark, which is not parsed.
const MARK: char = '\u{feff}';

/// A source file and what is inserted into it.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) tree: syn::File,
    insertions: Vec<(usize, String)>,
}

impl Source {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not Rust.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(path, text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// If it is not Rust.
    pub(super) fn parse(path: &Path, text: String) -> anyhow::Result<Self> {
        let code = text.strip_prefix(MARK).unwrap_or(&text);
        let tree = syn::parse_str(code).map_err(|error| {
            let place = error.span().start();
            anyhow!("{}:{}:{}: {error}", path.display(), place.line, place.column + 1)
        })?;
        Ok(Self { path: path.to_owned(), text, tree, insertions: Vec::new() })
    }

    /// Returns the bytes of a part of the syntax tree.
    pub(super) fn range(&self, span: Span) -> Range<usize> {
        let mark = if self.text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
        let range = span.byte_range();
        range.start + mark..range.end + mark
    }

    /// Returns the text before and after the insertions.
    pub(super) fn finish(mut self) -> (String, String) {
        self.insertions.sort_by_key(|(position, _)| *position);
        let windows = self.text.contains("\r\n");
        let mut new = self.text.clone();
        for (position, text) in self.insertions.iter().rev() {
            let text = if windows { text.replace('\n', "\r\n") } else { text.clone() };
            new.insert_str(*position, &text);
        }
        (self.text, new)
    }

    fn insert(&mut self, position: usize, text: String) -> anyhow::Result<()> {
        if !self.text.is_char_boundary(position) {
            bail!("{}: no place for an insertion was found", self.path.display());
        }
        // Insertions at the same place are made from the last to the first.
        let first = self.insertions.iter_mut().find(|(it, _)| *it == position);
        match first {
            Some((_, first)) => first.push_str(&text),
            None => self.insertions.push((position, text)),
        }
        Ok(())
    }

    /// Whether a name occurs in the code, outside of macros and comments.
    pub(super) fn mentions(&self, name: &str) -> bool {
        struct Search<'a>(&'a str, bool);
        impl<'ast> Visit<'ast> for Search<'_> {
            fn visit_ident(&mut self, ident: &'ast syn::Ident) {
                self.1 |= ident == self.0;
            }
        }
        let mut search = Search(name, false);
        search.visit_file(&self.tree);
        search.1
    }

    /// Whether the file has a `use` declaration of a name.
    pub(super) fn imports(&self, name: &str) -> bool {
        fn has(tree: &syn::UseTree, name: &str) -> bool {
            match tree {
                syn::UseTree::Path(path) => has(&path.tree, name),
                syn::UseTree::Name(it) => it.ident == name,
                syn::UseTree::Group(group) => group.items.iter().any(|it| has(it, name)),
                _ => false,
            }
        }
        self.tree.items.iter().any(|it| matches!(it, syn::Item::Use(it) if has(&it.tree, name)))
    }

    /// Declares a public module, in alphabetical order. Does nothing if it is declared.
    ///
    /// # Errors
    /// If the file has no place for it.
    pub(super) fn add_module(&mut self, name: &str) -> anyhow::Result<()> {
        let modules: Vec<&syn::ItemMod> = self.tree.items.iter().filter_map(module).collect();
        if modules.iter().any(|it| it.ident == name) {
            return Ok(());
        }
        let declared = modules.iter().filter(|it| it.content.is_none());
        let (before, after): (Vec<&syn::ItemMod>, Vec<_>) =
            declared.partition(|it| it.ident.to_string().as_str() < name);
        let (position, text) = match (before.last(), after.first(), self.tree.items.first()) {
            (Some(previous), ..) => {
                let end = self.range(previous.span()).end;
                (self.end_of_line(end), format!("\npub mod {name};"))
            }
            (None, Some(next), _) => (self.range(next.span()).start, format!("pub mod {name};\n")),
            (None, None, Some(item)) => {
                (self.range(item.span()).start, format!("pub mod {name};\n\n"))
            }
            (None, None, None) => (self.text.len(), format!("\npub mod {name};\n")),
        };
        self.insert(position, text)
    }

    /// Returns the end of the line if nothing but a comment follows on it.
    fn end_of_line(&self, position: usize) -> usize {
        let rest = self.text.get(position..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        match line.trim_start() {
            "" => position,
            comment if comment.starts_with("//") => position + line.len(),
            _ => position,
        }
    }

    /// Appends items to the file.
    ///
    /// # Errors
    /// If the file has no place for them.
    pub(super) fn append(&mut self, items: &str) -> anyhow::Result<()> {
        let separator = if self.text.ends_with('\n') { "\n" } else { "\n\n" };
        self.insert(self.text.len(), format!("{separator}{items}"))
    }

    /// Inserts a statement at the end of `register`; `{manager}` in it stands for the name of the
    /// parameter.
    ///
    /// # Errors
    /// If the function is missing, or does not end with a result.
    pub(super) fn add_registration(&mut self, statement: &str) -> anyhow::Result<()> {
        let (path, statement) = (self.path.display(), statement.to_owned());
        let function = self.tree.items.iter().find_map(|item| match item {
            syn::Item::Fn(it) if it.sig.ident == "register" => Some(it),
            _ => None,
        });
        let manager = function.and_then(|it| it.sig.inputs.iter().find_map(manager_name));
        let (Some(function), Some(manager)) = (function, manager) else {
            bail!("{path} has no function `register(manager: &Manager)`, as `evenkeel new` creates")
        };
        let statement = statement.replace("{manager}", &manager);
        let span = match function.block.stmts.last() {
            Some(syn::Stmt::Expr(expression, None)) => expression.span(),
            Some(syn::Stmt::Expr(expression @ syn::Expr::Return(_), _)) => expression.span(),
            _ => bail!(
                "`register` in {path} does not end with a result\nhint: insert `{statement}` yourself"
            ),
        };
        let position = self.range(span).start;
        let line = self.text.get(..position).and_then(|it| it.rsplit('\n').next());
        let indent = line.unwrap_or_default();
        let text = match indent.trim().is_empty() {
            true => {
                let lines = rustfmt::statement(&statement);
                let lines = lines.lines().map(|line| format!("{line}\n{indent}"));
                lines.collect::<String>()
            }
            false => format!("{statement} "),
        };
        self.insert(position, text)
    }

    /// Returns the calls in the file.
    pub(super) fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        calls.visit_file(&self.tree);
        calls
    }

    /// Inserts a method call into a chain, on a line of its own, after the last of the calls in
    /// `chain`; these get lines of their own too.
    ///
    /// # Errors
    /// If there is no place for it.
    pub(super) fn add_line(&mut self, chain: &[&Call], call: &str) -> anyhow::Result<()> {
        let Some(last) = chain.last() else { return Ok(()) };
        let dots: Vec<usize> =
            chain.iter().filter_map(|it| it.dot).map(|dot| self.range(dot).start).collect();
        let before = |position: usize| self.text.get(..position).unwrap_or_default();
        let position = self.range(last.end).end;
        let line = before(*dots.first().unwrap_or(&position)).rsplit('\n').next();
        let line = line.unwrap_or_default();
        if line.trim().is_empty() {
            return self.add_call(last, call);
        }
        let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
        let space = format!("\n{indent}    ");
        for dot in dots {
            self.insert(dot, space.clone())?;
        }
        self.insert(position, format!("{space}{call}"))
    }

    /// Inserts a method call into a chain, after another call.
    ///
    /// # Errors
    /// If there is no place for it.
    pub(super) fn add_call(&mut self, after: &Call, call: &str) -> anyhow::Result<()> {
        let position = self.range(after.end).end;
        let rest = self.text.get(position..).unwrap_or_default();
        let next = rest.trim_start();
        let space = match (next.starts_with('.'), after.dot) {
            (true, _) => rest.get(..rest.len() - next.len()).unwrap_or_default(),
            (false, Some(dot)) => {
                let before = self.text.get(..self.range(dot).start).unwrap_or_default();
                before.get(before.trim_end().len()..).unwrap_or_default()
            }
            (false, None) => "",
        };
        // The line feed alone: it is completed with the others.
        let space = space.replace('\r', "");
        self.insert(position, format!("{space}{call}"))
    }
}

fn module(item: &syn::Item) -> Option<&syn::ItemMod> {
    match item {
        syn::Item::Mod(it) => Some(it),
        _ => None,
    }
}

/// Returns the name of a parameter of the type `&Manager`.
fn manager_name(argument: &syn::FnArg) -> Option<String> {
    let syn::FnArg::Typed(argument) = argument else { return None };
    let (syn::Pat::Ident(name), syn::Type::Reference(reference)) = (&*argument.pat, &*argument.ty)
    else {
        return None;
    };
    let syn::Type::Path(path) = &*reference.elem else { return None };
    let named = path.path.segments.last().is_some_and(|it| it.ident == "Manager");
    named.then(|| name.ident.to_string())
}

/// A call of a function or method.
pub(super) struct Call {
    /// The path of the function, or the name of the method.
    pub(super) name: Vec<String>,
    /// The path of the first type argument.
    pub(super) of: Vec<String>,
    /// The dot of a method call.
    dot: Option<Span>,
    /// The last token.
    end: Span,
}

impl Call {
    /// Whether the call is one of a method with a type argument whose path ends with `of`.
    pub(super) fn is(&self, method: &str, of: &[&str]) -> bool {
        self.dot.is_some() && self.name.iter().eq([method]) && ends_with(&self.of, of)
    }

    /// Whether the path of the called function ends with `path`.
    pub(super) fn is_function(&self, path: &[&str]) -> bool {
        self.dot.is_none() && ends_with(&self.name, path)
    }
}

fn ends_with(path: &[String], end: &[&str]) -> bool {
    path.len() >= end.len() && path.iter().rev().zip(end.iter().rev()).all(|(a, b)| a == b)
}

/// Calls in the order in which they are made.
#[derive(Default)]
pub(super) struct Calls(pub(super) Vec<Call>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        syn::visit::visit_expr_method_call(self, call);
        self.0.push(Call {
            name: vec![call.method.to_string()],
            of: call.turbofish.as_ref().map(type_argument).unwrap_or_default(),
            dot: Some(call.dot_token.span),
            end: call.paren_token.span.close(),
        });
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        syn::visit::visit_expr_call(self, call);
        let syn::Expr::Path(function) = &*call.func else { return };
        let last = function.path.segments.last().map(|it| &it.arguments);
        let of = match last {
            Some(syn::PathArguments::AngleBracketed(arguments)) => type_argument(arguments),
            _ => Vec::new(),
        };
        let (name, end) = (names(&function.path), call.paren_token.span.close());
        self.0.push(Call { name, of, dot: None, end });
    }
}

/// Returns the path of the first type argument.
fn type_argument(arguments: &syn::AngleBracketedGenericArguments) -> Vec<String> {
    match arguments.args.first() {
        Some(syn::GenericArgument::Type(syn::Type::Path(path))) => names(&path.path),
        _ => Vec::new(),
    }
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|it| it.ident.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::parse(Path::new("lib.rs"), text.to_owned()).unwrap()
    }

    #[test]
    fn modules_are_declared_in_order_and_once() {
        let text = "//! Müll\n\npub mod api; // types\n#[cfg(test)]\nmod tests;\n\nuse api::A;\n";
        for (name, expected) in [
            ("note", text.replace("types\n", "types\npub mod note;\n")),
            ("a", text.replace("pub mod api", "pub mod a;\npub mod api")),
            ("zoo", text.replace("mod tests;", "mod tests;\npub mod zoo;")),
            ("api", text.to_owned()),
        ] {
            let mut source = source(text);
            source.add_module(name).unwrap();
            assert_eq!(source.finish().1, expected);
        }
        let mut source = source("\u{feff}//! Müll\r\n\r\n// ß\r\nuse a::A;\r\n");
        source.add_module("note").unwrap();
        let expected = "\u{feff}//! Müll\r\n\r\n// ß\r\npub mod note;\r\n\r\nuse a::A;\r\n";
        assert_eq!(source.finish().1, expected);
    }

    #[test]
    fn registrations_come_before_the_result() {
        let text =
            "fn register(m: &evenkeel::Manager) -> R {\n\tlet a = 1;\n\t// done\n\tOk(a)\n}\n";
        let mut changed = source(text);
        changed.add_registration("{manager}.a()?;").unwrap();
        changed.add_registration("{manager}.b()?;").unwrap();
        let expected = text.replace("\tOk(a)", "\tm.a()?;\n\tm.b()?;\n\tOk(a)");
        assert_eq!(changed.finish().1, expected);

        let mut one_line = source("fn register(m: &Manager) -> R { Ok(()) }");
        one_line.add_registration("{manager}.a()?;").unwrap();
        assert_eq!(one_line.finish().1, "fn register(m: &Manager) -> R { m.a()?; Ok(()) }");

        for (text, error) in [
            ("fn register() {}", "has no function `register(manager: &Manager)`"),
            ("fn register(m: &Manager) { a(); }", "insert `m.a()?;` yourself"),
        ] {
            let refused = source(text).add_registration("{manager}.a()?;").unwrap_err();
            assert!(refused.to_string().contains(error), "{refused}");
        }
    }

    #[test]
    fn calls_are_inserted_into_chains() {
        let text = "fn main() { a(b::<x::C>()\n    .crd::<D>()\n    .run()) }";
        for (method, of, expected) in [
            ("crd", "D", text.replace("<D>()", "<D>()\n    .new()")),
            ("run", "", text.replace("run()", "run()\n    .new()")),
        ] {
            let mut changed = source(text);
            let calls = changed.calls().0;
            let of = Some(of).filter(|it| !it.is_empty());
            let found = calls.iter().find(|it| it.is(method, of.as_slice())).unwrap();
            changed.add_call(found, ".new()").unwrap();
            assert_eq!(changed.finish().1, expected);
        }
        let calls = source(text).calls().0;
        assert!(calls.iter().any(|it| it.is_function(&["b"]) && it.of == ["x", "C"]));
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let error = Source::parse(Path::new("lib.rs"), "fn a() {}\nfn (".to_owned()).err().unwrap();
        assert!(error.to_string().starts_with("lib.rs:2:"), "{error}");
    }
}
