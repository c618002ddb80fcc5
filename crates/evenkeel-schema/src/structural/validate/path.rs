//! Paths of values during a walk: a linked list on the stack, formatted only for failures.

/// The path of a value.
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

pub(super) enum Step<'a> {
    Root,
    Property(&'a str),
    Additional(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub(super) fn child(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step }
    }

    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(text);
        }
        match self.step {
            Step::Root => {}
            Step::Property(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            // Upstream always adds the dot here and removes it again from the field's name.
            Step::Additional(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Index(i) => text.push_str(&format!("[{i}]")),
        }
    }
}
