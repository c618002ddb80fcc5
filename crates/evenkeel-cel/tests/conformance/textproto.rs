//! A reader of the text format of protocol buffers, as far as the conformance cases use it.

/// A message: names and values in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<(String, Field)>);

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    /// A number, an enum value or a boolean, as it is spelled.
    Scalar(String),
    /// A string or bytes.
    Text(Vec<u8>),
    /// A message.
    Message(Message),
}

impl Message {
    /// Parses a file.
    pub(crate) fn parse(text: &str) -> Message {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        reader.message()
    }

    /// The messages of a repeated field.
    pub(crate) fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.all(name).filter_map(|field| match field {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The values of a field.
    pub(crate) fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Field> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value)
    }

    /// The first message of a field.
    pub(crate) fn message(&self, name: &str) -> Option<&Message> {
        self.0.iter().find_map(|(key, value)| match value {
            Field::Message(message) if key == name => Some(message),
            _ => None,
        })
    }

    /// The text of a field; empty if it is not set.
    pub(crate) fn text(&self, name: &str) -> String {
        let text = self.all(name).find_map(|field| match field {
            Field::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Field::Scalar(text) => Some(text.clone()),
            Field::Message(_) => None,
        });
        text.unwrap_or_default()
    }

    /// Whether a flag is set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// Whether a field is set.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'#' => {
                    while self.text.get(self.at).is_some_and(|byte| *byte != b'\n') {
                        self.at += 1;
                    }
                }
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b';' => self.at += 1,
                _ => break,
            }
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.text.get(self.at).copied()
    }

    fn message(&mut self) -> Message {
        let mut fields = Vec::new();
        while let Some(byte) = self.peek() {
            if byte == b'}' {
                self.at += 1;
                break;
            }
            let name = self.name();
            if self.peek() == Some(b':') {
                self.at += 1;
            }
            match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    while self.peek() != Some(b']') {
                        fields.push((name.clone(), self.value()));
                    }
                    self.at += 1;
                }
                _ => fields.push((name, self.value())),
            }
        }
        Message(fields)
    }

    fn name(&mut self) -> String {
        if self.peek() == Some(b'[') {
            let start = self.at + 1;
            while self.text[self.at] != b']' {
                self.at += 1;
            }
            self.at += 1;
            return String::from_utf8_lossy(&self.text[start..self.at - 1]).trim().to_owned();
        }
        self.word()
    }

    fn word(&mut self) -> String {
        let start = self.at;
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.+-/".contains(byte);
        while self.text.get(self.at).is_some_and(part) {
            self.at += 1;
        }
        assert!(
            self.at > start,
            "unexpected {:?} at {start}",
            self.text.get(start).map(|b| *b as char)
        );
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn value(&mut self) -> Field {
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                Field::Message(self.message())
            }
            Some(b'"' | b'\'') => {
                let mut text = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.at += 1;
                    self.string(quote, &mut text);
                }
                Field::Text(text)
            }
            _ => Field::Scalar(self.word()),
        }
    }

    fn string(&mut self, quote: u8, text: &mut Vec<u8>) {
        loop {
            let byte = self.text[self.at];
            self.at += 1;
            match byte {
                _ if byte == quote => return,
                b'\\' => self.escape(text),
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) {
        let byte = self.text[self.at];
        self.at += 1;
        match byte {
            b'a' => text.push(7),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'v' => text.push(11),
            b'0'..=b'7' => {
                self.at -= 1;
                let code = self.digits(3, 8);
                text.push(u8::try_from(code).unwrap());
            }
            b'x' | b'X' => {
                let code = self.digits(2, 16);
                text.push(u8::try_from(code).unwrap());
            }
            b'u' | b'U' => {
                let code = self.digits(if byte == b'u' { 4 } else { 8 }, 16);
                let character = char::from_u32(code).unwrap();
                text.extend_from_slice(character.to_string().as_bytes());
            }
            other => text.push(other),
        }
    }

    fn digits(&mut self, most: usize, radix: u32) -> u32 {
        let mut code = 0;
        for _ in 0..most {
            let Some(digit) = (self.text[self.at] as char).to_digit(radix) else { break };
            code = code * radix + digit;
            self.at += 1;
        }
        code
    }
}
