//! Draws text over what it drew before, on a terminal.
//!
//! What is drawn never wraps and is never taller than the terminal: a line that wrapped or scrolled away could not be
//! drawn over. In a pipe nothing is drawn over, so callers print what changed instead.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;

use crate::view::words::columns_of;

/// Columns and rows of a terminal that does not tell.
const USUAL: (usize, usize) = (80, 24);

/// A place on the terminal that is drawn again and again.
#[derive(Default)]
pub(crate) struct Screen {
    /// Lines of the last drawing.
    drawn: usize,
}

impl Screen {
    /// Whether standard output is a place to draw on; colours are another matter.
    pub(crate) fn is_there() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Draws the first of the texts that fits in whole, else as much of the last one as fits.
    pub(crate) fn draw(&mut self, texts: &[String]) -> Result<()> {
        let (columns, rows) = size();
        // The line that the cursor waits on is a row too.
        let room = rows.saturating_sub(1).max(1);
        let fitting = texts.iter().find(|text| text.lines().count() <= room).or(texts.last());
        self.write(&fitted(fitting.map_or("", String::as_str), columns, room))
    }

    /// Draws a text in whole for the last time; what follows comes below it.
    pub(crate) fn finish(&mut self, text: &str) -> Result<()> {
        let (columns, _) = size();
        self.write(&fitted(text, columns, usize::MAX))?;
        self.drawn = 0;
        Ok(())
    }

    fn write(&mut self, lines: &[String]) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        if self.drawn > 0 {
            write!(stdout, "\x1b[{}A", self.drawn)?;
        }
        // Each line clears what stood after it: nothing is blank in between, so nothing flickers.
        for line in lines {
            write!(stdout, "\r{line}\x1b[K\n")?;
        }
        write!(stdout, "\x1b[J")?;
        stdout.flush()?;
        self.drawn = lines.len();
        Ok(())
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    let (columns, rows) =
        terminal_size::terminal_size().map_or(USUAL, |(width, height)| (usize::from(width.0), usize::from(height.0)));
    // A terminal without a size says zero.
    if columns == 0 || rows == 0 {
        USUAL
    } else {
        (columns, rows)
    }
}

/// At most so many lines of at most so many columns; the last one says how many were left out.
fn fitted(text: &str, columns: usize, rows: usize) -> Vec<String> {
    let count = text.lines().count();
    if count <= rows {
        return text.lines().map(|line| cut(line, columns)).collect();
    }
    let shown = rows.saturating_sub(1);
    let mut lines: Vec<String> = text.lines().take(shown).map(|line| cut(line, columns)).collect();
    lines.push(cut(&format!("... {} more lines", count - shown), columns));
    lines
}

/// A line of at most so many columns; colours take none.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let (mut kept, mut used, mut coloured) = (String::new(), 0, false);
    let mut rest = line.chars();
    let total = columns_of(line);
    while let Some(letter) = rest.next() {
        if letter == '\x1b' {
            coloured = true;
            kept.push(letter);
            for letter in rest.by_ref() {
                kept.push(letter);
                if letter.is_ascii_alphabetic() {
                    break;
                }
            }
            continue;
        }
        if total > columns && used + 1 >= columns {
            kept.push('…');
            if coloured {
                kept.push_str("\x1b[0m");
            }
            return kept;
        }
        kept.push(letter);
        used += 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_edge_and_colours_take_no_room() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("\x1b[32mabc\x1b[0mdef", 6), "\x1b[32mabc\x1b[0mdef");
        assert_eq!(cut("\x1b[32mabcdef\x1b[0m", 3), "\x1b[32mab…\x1b[0m");
        assert_eq!(cut("├─ é", 4), "├─ é");
    }

    #[test]
    fn what_is_too_tall_says_how_much_is_left_out() {
        assert_eq!(fitted("a\nb\nc\n", 80, 3), ["a", "b", "c"]);
        assert_eq!(fitted("a\nb\nc\nd\n", 80, 3), ["a", "b", "... 2 more lines"]);
    }
}
