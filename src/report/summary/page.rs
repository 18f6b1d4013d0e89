//! A page that never grows over what GitHub takes.

/// GitHub drops a summary of more than 1,048,576 bytes as a whole. What is left over is for the marks that redaction puts
/// in the place of secrets.
const MOST: usize = 1_000_000;

const LEFT_OUT: &str = "*A part is left out here: the summary would be too large.*";

/// Sections with an empty line between them.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Adds a section. One that does not fit is left out as a whole, so that no markup is cut in two.
    pub(super) fn add(&mut self, section: &str) {
        let section = section.trim_end_matches('\n');
        if section.is_empty() {
            return;
        }
        let fits = self.text.len() + section.len() < MOST;
        let section = if fits { section } else { LEFT_OUT };
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(section);
        self.text.push('\n');
    }

    /// Adds a section that people unfold, or may fold, if there is something in it.
    pub(super) fn fold(&mut self, title: &str, open: bool, body: &str) {
        let open = if open { " open" } else { "" };
        let body = body.trim_end_matches('\n');
        if body.is_empty() {
            return;
        }
        // Without the empty lines the body would be read as HTML.
        self.add(&format!(
            "<details{open}>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
        ));
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_does_not_fit_is_left_out_as_a_whole() {
        let mut page = Page::default();
        page.add("first");
        page.fold("large", false, &"x".repeat(MOST));
        page.add("last");
        assert_eq!(page.finish(), format!("first\n\n{LEFT_OUT}\n\nlast\n"));
    }
}
