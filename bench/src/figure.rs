//! The report: one line per figure, with its target and the rival's figure.

/// Prints figures as they are measured.
#[derive(Debug, Default)]
pub(crate) struct Report;

/// One measured figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    /// The bound for `ours`.
    pub(crate) target: Option<Target>,
    pub(crate) rival: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// At least this many times the rival's figure.
    TimesRival(f64),
    /// At most the rival's figure divided by this.
    Faster(f64),
}

#[expect(clippy::print_stdout, reason = "the report is the output of the program")]
impl Report {
    pub(crate) fn head(&self) {
        println!(
            "{:<44}{:>12} {:<9}{:>14}{:>12}{:>8}",
            "", "evenkeel", "", "target", "rival", "better"
        );
    }

    /// Prints why a figure is not measured.
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

/// Formats with about three significant digits, which exceeds the accuracy of the measurement.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
