//! Insertions into a text, of which one can enclose others.

use std::cmp::Reverse;
use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

/// A part of the text that is enclosed by insertions.
pub(super) struct Edit {
    /// The mutant that it belongs to.
    pub(super) number: usize,
    pub(super) range: Range<usize>,
    pub(super) before: String,
    /// The length of what `after` replaces at the end of the range.
    pub(super) cut: usize,
    pub(super) after: String,
}

/// Returns the text with the edits, and for each of them its number and range in it. Ranges are disjoint
/// or enclose each other.
pub(super) fn render(text: &str, edits: &[Edit]) -> (String, Vec<(usize, Range<usize>)>) {
    let mut order: Vec<&Edit> = edits.iter().collect();
    // What is inserted before a statement, then the outer ones first; of equal ranges, the first one is
    // the outer one.
    order.sort_by_key(|edit| (edit.range.start, !edit.range.is_empty(), Reverse(edit.range.end)));
    let mut output = Output { source: text, text: String::new(), ranges: Vec::new() };
    output.part(0..text.len(), &mut order.into_iter().peekable());
    (output.text, output.ranges)
}

struct Output<'a> {
    source: &'a str,
    text: String,
    ranges: Vec<(usize, Range<usize>)>,
}

impl Output<'_> {
    /// Writes a part of the source with the edits in it.
    fn part(&mut self, part: Range<usize>, edits: &mut Peekable<IntoIter<&Edit>>) {
        let mut at = part.start;
        while let Some(edit) =
            edits.next_if(|it| it.range.end <= part.end && it.range.start < part.end)
        {
            self.text.push_str(&self.source[at..edit.range.start]);
            let start = self.text.len();
            self.text.push_str(&edit.before);
            self.part(edit.range.start..edit.range.end - edit.cut, edits);
            self.text.push_str(&edit.after);
            self.ranges.push((edit.number, start..self.text.len()));
            at = edit.range.end;
        }
        self.text.push_str(&self.source[at..part.end]);
    }
}

/// Joins the lines of code, without the comments at their ends.
pub(super) fn one_line(code: &str) -> String {
    let lines = code.lines().map(|line| match line.trim_start().starts_with("//") {
        true => "",
        false => line.trim(),
    });
    let mut joined = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if !joined.is_empty() && !line.starts_with(['.', '?', ')']) && !joined.ends_with('(') {
            joined.push(' ');
        }
        joined.push_str(line);
    }
    joined
}
