use super::*;
use crate::Secret;

fn every_message() -> Vec<Message> {
    let ask = Ask {
        command: b"aws".to_vec(),
        args: vec![b"eks".to_vec(), Vec::new(), vec![0xff, b'\n']],
        environment: vec![
            (b"HOME".to_vec(), b"/home/ann".to_vec()),
            (b"TOKEN".to_vec(), b"s3cr3t".to_vec()),
            (b"EMPTY".to_vec(), Vec::new()),
        ],
        directory: b"/work".to_vec(),
        terminal: b"/dev/pts/3".to_vec(),
        login: true,
        own: true,
        rejected: Some(Rejected { serial: 3, was_accepted: true }),
    };
    vec![
        Message::Hello(Hello::ours("0.1.0")),
        Message::Ask(Ask::default()),
        Message::Ask(ask),
        Message::Done(Done {
            id: 7,
            code: Some(-1),
            stdout: Secret::new("s3cr3t"),
            stderr: Secret::default(),
        }),
        Message::Done(Done {
            id: u64::MAX,
            code: None,
            stdout: Secret::from_bytes(vec![0xff, 0xfe]),
            stderr: Secret::new("s3cr3t"),
        }),
        Message::Rejected(Rejected { serial: 3, was_accepted: true }),
        Message::Admin(Admin::Status),
        Message::Admin(Admin::Stop),
        Message::Admin(Admin::Lock),
        Message::Admin(Admin::Unlock),
        Message::Admin(Admin::Forget(None)),
        Message::Admin(Admin::Forget(Some("prod".into()))),
        Message::Admin(Admin::Metrics),
        Message::Secret(SecretRequest::Get("a".into())),
        Message::Secret(SecretRequest::Put("a".into(), Secret::new("s3cr3t"), -5)),
        Message::Secret(SecretRequest::Lease("a".into())),
        Message::Secret(SecretRequest::Forget(String::new())),
        Message::Secret(SecretRequest::Pending),
        Message::TakeOver,
        Message::Proxy(ProxyRequest::Certificate { service: "a".into(), context: "b".into() }),
        Message::Proxy(ProxyRequest::Start("a".into())),
        Message::Proxy(ProxyRequest::Stop("a".into())),
        Message::Proxy(ProxyRequest::Serving { service: "a".into(), contexts: Vec::new() }),
        Message::Proxy(ProxyRequest::Serving {
            service: "a".into(),
            contexts: vec![
                ProxyContext {
                    name: "b".into(),
                    certificate: "c".into(),
                    key: Secret::new("s3cr3t"),
                    fault: String::new(),
                },
                ProxyContext { fault: "no port".into(), ..ProxyContext::default() },
            ],
        }),
        Message::Proxy(ProxyRequest::Failed { service: "a".into(), why: "no file".into() }),
        Message::Proxy(ProxyRequest::Idle("a".into())),
        Message::Proxy(ProxyRequest::Replaced("a".into())),
        Message::Answer(Answer { stdout: Secret::new("s3cr3t"), serial: 9 }),
        Message::Failure(Failure { code: 3, text: "no".into(), retry: 1000 }),
        Message::Note("waiting".into()),
        Message::Lease(Lease { id: 1, program: b"/bin/true".to_vec(), budget: 5, attended: true }),
        Message::Direct("another namespace".into()),
        Message::Served(Served::Done(Secret::new("s3cr3t"))),
        Message::Served(Served::Absent),
        Message::Served(Served::Leased),
        Message::Served(Served::Not("locked".into())),
    ]
}

#[test]
fn every_message_reads_back_the_same_however_it_arrives() {
    for message in every_message() {
        let mut wire = Vec::new();
        message.write(&mut wire);
        message.write(&mut wire);
        for piece in [1, 3, wire.len()] {
            let mut inbox = Inbox::default();
            let mut found = Vec::new();
            for bytes in wire.chunks(piece) {
                inbox.push(bytes);
                while let Some(message) = inbox.next().expect("it is well formed") {
                    found.push(message);
                }
            }
            assert_eq!(found, [message.clone(), message.clone()]);
            assert!(inbox.is_empty());
        }
    }
}

#[test]
fn no_message_shows_a_secret() {
    for message in every_message() {
        let shown = format!("{message:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}

#[test]
fn a_field_of_a_later_version_is_skipped() {
    let mut wire = Vec::new();
    let mut frame = field::Writer::begin(&mut wire, 18);
    frame.put(200, b"later");
    frame.put(1, b"now");
    frame.end();
    let mut inbox = Inbox::default();
    inbox.push(&wire);
    assert_eq!(inbox.next(), Ok(Some(Message::Note("now".into()))));
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let frame = |bytes: &[u8]| {
        let mut inbox = Inbox::default();
        inbox.push(&u32::try_from(bytes.len()).expect("short").to_le_bytes());
        inbox.push(bytes);
        inbox.next()
    };
    assert_eq!(frame(&[]), Err(Malformed::Length));
    assert_eq!(frame(&[99]), Err(Malformed::Type(99)));
    assert_eq!(frame(&[18, 1, 9, 0, 0, 0, b'x']), Err(Malformed::Field));
    assert_eq!(frame(&[16]), Err(Malformed::Missing("stdout")));
    assert_eq!(frame(&[1, 1, 4, 0, 0, 0, b'H', b'T', b'T', b'P']), Err(Malformed::Magic));
    let mut inbox = Inbox::default();
    inbox.push(b"GET / HTTP/1.1\r\n");
    assert_eq!(inbox.next(), Err(Malformed::Length), "a web page cannot speak to the agent");
}

#[test]
fn the_highest_version_of_both_is_spoken() {
    let hello = |lowest, highest| Hello { lowest, highest, version: String::new() }.common();
    assert_eq!(hello(1, 1), Some(1));
    assert_eq!(hello(1, 9), Some(1));
    assert_eq!(hello(2, 9), None);
    assert_eq!(hello(0, 0), None);
}
