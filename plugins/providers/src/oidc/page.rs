//! The page that the browser shows at the end. It needs nothing from elsewhere.

use keyward_protocol::text::escape_html as escape;

/// An answer to the browser.
pub(super) enum Page<'a> {
    /// The login worked: who, and at which provider.
    Welcome { who: &'a str, issuer: &'a str },
    /// The login failed.
    Sorry { why: &'a str },
    /// The browser goes on to another page.
    GoTo(&'a str),
    /// The browser asked for something else, such as an icon.
    Nothing,
}

impl Page<'_> {
    /// The whole HTTP response.
    pub(super) fn response(&self) -> String {
        let (status, title, lines) = match self {
            Self::Welcome { who, issuer } => (
                "200 OK",
                "You are logged in",
                [format!("as <b>{}</b>", escape(who)), format!("at {}", escape(issuer))],
            ),
            Self::Sorry { why } => (
                "400 Bad Request",
                "The login did not work",
                [escape(why), "The terminal may tell more.".to_owned()],
            ),
            Self::GoTo(address) => {
                return format!(
                    "HTTP/1.1 302 Found\r\nLocation: {}\r\n{HEADERS}Content-Length: 0\r\n\r\n",
                    one_line(address)
                );
            }
            Self::Nothing => {
                return format!("HTTP/1.1 404 Not Found\r\n{HEADERS}Content-Length: 0\r\n\r\n");
            }
        };
        let body = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p>{}</p>\n<p>{}</p>\n<p>You can close this window.</p>\n\
             </main>\n</body>\n</html>\n",
            lines[0], lines[1]
        );
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n{HEADERS}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// The address of this page has the code in it: it goes nowhere else, and no script runs.
const HEADERS: &str = "Cache-Control: no-store\r\nConnection: close\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\
    Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n";

const STYLE: &str = "\
:root { color-scheme: light dark; font: 18px/1.5 system-ui, sans-serif }\
main { max-width: 34rem; margin: 20vh auto 0; padding: 0 1.5rem; overflow-wrap: anywhere }\
h1 { font-size: 1.6rem; font-weight: 600 }\
p { margin: 0.4rem 0 }\
p:last-child { margin-top: 1.6rem; opacity: 0.7 }";

/// A header's value: an address has no line breaks.
fn one_line(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_become_markup_and_an_address_cannot_become_a_header() {
        let who = "<script>alert(1)</script>\"'&\u{7}";
        let page = Page::Welcome { who, issuer: "https://a/<b>" }.response();
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp; </b>"),
            "{page}"
        );
        assert!(page.contains("https://a/&lt;b&gt;"), "{page}");
        let page = Page::GoTo("https://a/\r\nSet-Cookie: b=c").response();
        assert!(page.contains("Location: https://a/Set-Cookie: b=c\r\n"), "{page}");
    }

    #[test]
    fn the_page_names_nothing_that_would_have_to_be_fetched() {
        let page = Page::Welcome { who: "ann", issuer: "the provider" }.response();
        for word in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(word), "`{word}` in {page}");
        }
    }
}
