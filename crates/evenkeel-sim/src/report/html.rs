//! The timeline as a page without external resources: one lane per actor, time downwards.

use std::fmt::Write as _;

use super::{Finding, Report, hints, text};
use crate::trace::{self, Lane, TraceEvent};

/// Rows of the picture that is shown at once; the whole run follows.
const AROUND: usize = 60;

const LANE: usize = 290;
const LEFT: usize = 92;
const ROW: usize = 22;
const TOP: usize = 44;
/// Characters of an event that fit into its lane and the one on its right.
const CHARACTERS: usize = 76;
/// The same for the last lane, on whose right the picture ends.
const CHARACTERS_LAST: usize = 58;
/// How wide the text of the last lane may be.
const LAST: usize = 450;

const STYLE: &str = "
:root{color-scheme:light dark;--text:#1d2329;--soft:#68717a;--line:#d3d9df;--band:#f3f5f7;\
--fault:#b3161b;--fault-band:#fdecec;--user:#7a4fb5;--server:#2563ab;--cache:#147d64;--operator:#a15c00;\
--leader:#9c3587;--application:#0f7285}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ec;--soft:#97a1ab;--line:#3a424a;--band:#1e242a;\
--fault:#ff8080;--fault-band:#42191b;--user:#c3a3f0;--server:#7db4f0;--cache:#5fd0b0;--operator:#efb060;\
--leader:#eb9cd8;--application:#6fcbe0}body{background:#14181c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);margin:2rem auto;padding:0 1.5rem;max-width:1460px}
h1{font-size:1.25rem;margin:0}h2{font-size:1rem;margin:1.6rem 0 .4rem}
.sentence{font-size:1.1rem;font-weight:600;color:var(--fault);margin:.4rem 0;overflow-wrap:anywhere}
pre{background:var(--band);padding:.8rem 1rem;margin:0;white-space:pre-wrap;overflow-wrap:anywhere;\
font:13px/1.5 ui-monospace,monospace;border-radius:6px}
.soft{color:var(--soft)}.scroll{overflow-x:auto}summary{cursor:pointer;margin:1.2rem 0 .4rem}
svg{display:block}svg text{font:12px ui-monospace,monospace;fill:var(--text)}
svg .time{fill:var(--soft)}svg .head{font:600 13px system-ui,sans-serif}
svg .lane{stroke:var(--line)}svg .arrow{stroke:var(--line);stroke-width:1.5}
svg .band{fill:var(--band)}svg .fault-band{fill:var(--fault-band)}svg text.fault{fill:var(--fault);font-weight:700}
";

/// Returns the page.
pub(super) fn page(report: &Report) -> String {
    let title = escape(&format!("Simulation of {}", report.operator));
    let coverage = escape(&report.coverage.to_string());
    let body = match &report.finding {
        None => "<p>No violation.</p>".to_owned(),
        Some(finding) => body(finding),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title}</h1>{body}\
         <h2>Coverage</h2><p class=\"soft\">{coverage}</p></body></html>\n",
    )
}

fn body(finding: &Finding) -> String {
    let mut body = format!(
        "<p class=\"sentence\">{}</p><h2>Plan</h2><pre>{}</pre>",
        escape(&finding.sentence()),
        escape(text::plan(finding).trim_end())
    );
    let differences = text::differences(finding);
    if let Some((_, fields)) = differences.trim_end().split_once('\n') {
        let _ = write!(body, "<h2>Expected and found</h2><pre>{}</pre>", escape(fields));
    }
    let hint = hints::hint(finding);
    let _ = write!(
        body,
        "<h2>Likely cause</h2><p>{}.</p><h2>Prevented by</h2><p>{}.</p>",
        code(&escape(&hint.cause)),
        code(&escape(hint.prevention))
    );
    let around = trace::timeline(&finding.trace, AROUND);
    let _ = write!(body, "<h2>Timeline</h2><div class=\"scroll\">{}</div>", picture(around));
    if around.len() < finding.trace.len() {
        let _ = write!(
            body,
            "<details><summary>The whole run: {} events</summary>\
             <div class=\"scroll\">{}</div></details>",
            finding.trace.len(),
            picture(&finding.trace)
        );
    }
    body
}

/// Sets text between backquotes as code.
fn code(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

/// Returns the events as a picture. Lanes without events are left out.
fn picture(events: &[TraceEvent]) -> String {
    let used = |lane: &Lane| events.iter().any(|event| event.lane == *lane);
    let lanes: Vec<Lane> = Lane::ALL.into_iter().filter(used).collect();
    let x_of = |lane: Lane| {
        let number = lanes.iter().position(|it| *it == lane)?;
        Some(LEFT + number * LANE)
    };
    let width = LEFT + lanes.len().saturating_sub(1) * LANE + LAST;
    let height = TOP + ROW * events.len() + ROW / 2;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"timeline\">"
    );
    for (row, event) in events.iter().enumerate() {
        // What the user does begins a step.
        let class = match (event.fault, event.lane) {
            (true, _) => "fault-band",
            (false, Lane::User) => "band",
            _ => continue,
        };
        let y = TOP + row * ROW;
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"0\" y=\"{y}\" width=\"{width}\" height=\"{ROW}\"/>"
        );
    }
    for lane in &lanes {
        let (x, name) = (x_of(*lane).unwrap_or_default(), lane.name());
        let _ = write!(
            svg,
            "<text class=\"head\" style=\"fill:var(--{name})\" x=\"{}\" y=\"20\">{name}</text>\
             <line class=\"lane\" x1=\"{x}\" y1=\"30\" x2=\"{x}\" y2=\"{height}\"/>",
            x - 6
        );
    }
    let mut time = String::new();
    for (row, event) in events.iter().enumerate() {
        let (Some(x), middle) = (x_of(event.lane), TOP + row * ROW + ROW / 2) else { continue };
        let from = match event.lane {
            Lane::Cache => x_of(Lane::Server),
            Lane::Operator if event.text.contains('→') => x_of(Lane::Server),
            _ => None,
        };
        if let Some(from) = from {
            arrow(&mut svg, event.lane, [from, x], middle);
        }
        let now = format!("{:.3} s", event.at.as_secs_f64());
        if now != time {
            let y = middle + 4;
            let _ = write!(
                svg,
                "<text class=\"time\" x=\"{}\" y=\"{y}\" text-anchor=\"end\">{now}</text>",
                LEFT - 14
            );
            time = now;
        }
        point(&mut svg, event, [x, middle], lanes.last() == Some(&event.lane));
    }
    svg + "</svg>"
}

/// Draws a request from the operator to the server, or an event from the server to the cache.
fn arrow(svg: &mut String, lane: Lane, [server, other]: [usize; 2], y: usize) {
    let (from, to, head) = match lane {
        Lane::Operator => (other, server, server + 7),
        _ => (server, other - 5, other - 12),
    };
    let _ = write!(
        svg,
        "<path class=\"arrow\" fill=\"none\" d=\"M{from} {y}H{to}M{head} {}L{to} {y}L{head} {}\"/>",
        y - 4,
        y + 4
    );
}

fn point(svg: &mut String, event: &TraceEvent, [x, y]: [usize; 2], last: bool) {
    let (class, fill) = match event.fault {
        true => ("fault", "fault"),
        false => ("", event.lane.name()),
    };
    let most = if last { CHARACTERS_LAST } else { CHARACTERS };
    let _ = write!(
        svg,
        "<g><title>{}</title><circle cx=\"{x}\" cy=\"{y}\" r=\"4\" style=\"fill:var(--{fill})\"/>\
         <text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text></g>",
        escape(&event.text),
        x + 11,
        y + 4,
        escape(&shortened(&event.text, most))
    );
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Escapes text for HTML and XML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other control characters.
            it if it.is_control() && !matches!(it, '\n' | '\t') => escaped.push(' '),
            it => escaped.push(it),
        }
    }
    escaped
}
