use super::*;

const ANSWERED: Option<Outcome> = Some(Outcome::Answered);

// Reads a stream in pieces of every size, and gives the lengths and outcomes of its answers, which
// must not depend on the pieces.
fn answers(end: &End, stream: &[u8]) -> Vec<(usize, Outcome)> {
    let read = |piece: usize| {
        let (mut reader, mut found, mut length) = (Reader::new(end.clone()), Vec::new(), 0);
        for mut bytes in stream.chunks(piece) {
            while !bytes.is_empty() {
                let fed = reader.feed(bytes);
                assert!(fed.used > 0 || fed.done.is_some());
                length += fed.used;
                bytes = &bytes[fed.used..];
                if let Some(outcome) = fed.done {
                    found.push((std::mem::take(&mut length), outcome));
                    assert!(!reader.is_amid());
                    if matches!(outcome, Outcome::Failed(Failure::Unreadable(_) | Failure::Unlike))
                    {
                        // The connection is closed then.
                        return found.into_iter().map(|(_, outcome)| (0, outcome)).collect();
                    }
                }
            }
        }
        assert_eq!(reader.is_amid(), length > 0);
        found
    };
    let whole = read(stream.len());
    for piece in 1..stream.len() {
        assert_eq!(read(piece), whole, "in pieces of {piece}");
    }
    whole
}

fn ok(lengths: &[usize]) -> Vec<(usize, Outcome)> {
    lengths.iter().map(|length| (*length, Outcome::Answered)).collect()
}

#[test]
fn answers_of_one_length() {
    assert_eq!(answers(&End::Length(7, Some(b'+')), b"+PONG\r\n+PONG\r\n+PO"), ok(&[7, 7]));
    let unlike = answers(&End::Length(7, Some(b'+')), b"-ERR max number of clients reached\r\n");
    assert_eq!(unlike, [(0, Outcome::Failed(Failure::Unlike))]);
    assert_eq!(answers(&End::Length(2, None), b"aabb"), ok(&[2, 2]));
}

#[test]
fn answers_that_end_with_some_bytes() {
    let end = End::Until(b"END\r\n".to_vec());
    assert_eq!(answers(&end, b"VALUE x\r\nEN\r\nEENEND\r\nEND\r\nEND"), ok(&[21, 5]));
}

#[test]
fn answers_that_are_a_line_or_end_with_one() {
    assert_eq!(answers(&End::Line(None), b"1\n22\r\n\n33"), ok(&[2, 4, 1]));
    let end = End::Line(Some(b"done".to_vec()));
    assert_eq!(answers(&end, b"a\ndone \nnot done\ndone\ndone\r\ndonedone\ndo"), ok(&[22, 6]));
}

#[test]
fn http_by_length() {
    let stream = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nServer: x\r\n\r\nhelloHTTP/1.1 204 No \
          Content\r\n\r\n\
        HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: \
        0\r\n\r\n";
    assert_eq!(answers(&End::Http, stream), ok(&[54, 27, 48, 38]));
}

#[test]
fn http_in_chunks() {
    let stream =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 3\r\n\r\n\
        5\r\nhello\r\nA;name=\"v\"\r\n0123\r\n6789\r\n0\r\nTrailer: x\r\n\r\nHTTP/1.1 200 \
        OK\r\nContent-Length: 1\r\n\r\nx";
    let found = answers(&End::Http, stream);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1], (39, Outcome::Answered));
}

#[test]
fn http_after_an_interim_answer() {
    let stream =
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(answers(&End::Http, stream), ok(&[stream.len()]));
}

#[test]
fn http_errors_are_complete_answers_too() {
    let stream = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nnoHTTP/1.1 404 \
                   X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let found: Vec<Outcome> =
        answers(&End::Http, stream).into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(found, [503, 404].map(|status| Outcome::Failed(Failure::Status(status))));
}

#[test]
fn http_that_ends_with_the_connection() {
    let mut reader = Reader::new(End::Http);
    assert_eq!(reader.feed(b"HTTP/1.0 200 OK\r\n\r\nsome").done, None);
    assert!(reader.closes());
    assert_eq!(reader.closed(), Outcome::Answered);
    let mut reader = Reader::new(End::Http);
    assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome").done, None);
    assert_eq!(reader.closed(), Outcome::Failed(Failure::Closed));
}

#[test]
fn http_says_when_the_connection_closes() {
    for (head, closes) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", false),
    ] {
        let mut reader = Reader::new(End::Http);
        assert_eq!(reader.feed(head.as_bytes()), Fed { used: head.len(), done: ANSWERED });
        assert_eq!(reader.closes(), closes, "{head}");
    }
}

#[test]
fn what_is_no_http_is_said() {
    for (stream, part) in [
        ("+PONG\r\n", "malformed"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "not a number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two lengths"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "length of a chunk"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than it says"),
    ] {
        let found = answers(&End::Http, stream.as_bytes());
        let [(_, Outcome::Failed(Failure::Unreadable(what)))] = found[..] else {
            panic!("{found:?}")
        };
        assert!(what.contains(part), "{stream}: {what}");
    }
}
