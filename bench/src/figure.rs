//! The table that comes out: a figure a line, beside its target and the rival's.

/// Prints figures as they come.
#[derive(Debug, Default)]
pub(crate) struct Report;

/// One thing measured.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    /// What ours has to reach, or stay below.
    pub(crate) target: Option<Target>,
    pub(crate) rival: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// So many times as much as the rival.
    TimesRival(f64),
    /// The rival takes so many times as long.
    Faster(f64),
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
impl Report {
    pub(crate) fn head(&self) {
        println!(
            "{:<44}{:>12} {:<9}{:>14}{:>12}{:>8}",
            "", "evenkeel", "", "target", "rival", "better"
        );
    }

    /// Says why something is not measured.
    pub(crate) fn skip(&self, what: &str, why: &str) {
        println!("{what:<44}{:>12}  {why}", "skipped");
    }

    pub(crate) fn add(&mut self, figure: &Figure) {
        let Figure { what, unit, ours, target, rival } = figure;
        let less_is_better = matches!(target, Some(Target::AtMost(_) | Target::Faster(_)));
        let (target, met) = match target {
            None => (String::new(), true),
            Some(Target::AtLeast(bound)) => (format!(">= {}", number(*bound)), ours >= bound),
            Some(Target::AtMost(bound)) => (format!("<= {}", number(*bound)), ours <= bound),
            Some(Target::TimesRival(factor)) => {
                let met = rival.is_none_or(|rival| *ours >= factor * rival);
                (format!(">= {factor}x rival"), met)
            }
            Some(Target::Faster(factor)) => {
                let met = rival.is_none_or(|rival| factor * ours <= rival);
                (format!("<= rival / {factor}"), met)
            }
        };
        let (rival, ratio) = match rival {
            None => (String::new(), String::new()),
            Some(rival) => {
                let times = if less_is_better { rival / ours } else { ours / rival };
                (number(*rival), format!("{times:.1}x"))
            }
        };
        let missed = if met { "" } else { "  missed" };
        println!(
            "{what:<44}{:>12} {unit:<9}{target:>14}{rival:>12}{ratio:>8}{missed}",
            number(*ours)
        );
    }
}

/// Three significant digits are enough for anybody, and more than a noisy machine gives.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
