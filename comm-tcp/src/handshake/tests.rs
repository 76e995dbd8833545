use std::net::SocketAddr;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::encryption::Encryption;

fn said() -> Hello {
    Hello {
        link: LinkKind::Watch,
        layout: LAYOUT,
        from: 3,
        to: 0,
        size: 8,
        host: 0x0123_4567_89ab_cdef,
        ring: SocketAddr::from(([10, 0, 0, 5], 4242)),
        encryption: Encryption::Auto,
        sealed: true,
        local: SocketAddr::from(([10, 0, 0, 5], 51_000)),
        session: [7; SESSION],
        job: job(Some("nightly")),
    }
}

fn parties(client: &[u8], server: &[u8]) -> (Server, Client, Keys, Keys) {
    let (client_keys, server_keys) = (Keys::new(client), Keys::new(server));
    let server = Server::new([1; NONCE], true);
    let client = Client::new(server.challenge(), &said(), &[2; NONCE], &client_keys).unwrap();
    (server, client, client_keys, server_keys)
}

#[test]
fn both_sides_prove_that_they_know_the_secret() {
    let (server, client, client_keys, server_keys) = parties(b"secret", b"secret");
    assert_eq!(server.hello(client.hello(), &server_keys), Ok(said()));
    let reply = server.reply(client.hello(), Status::Welcome, &[9; SESSION], &server_keys);
    assert_eq!(
        client.reply(&reply, &client_keys),
        Ok((Status::Welcome, [9; SESSION]))
    );
}

#[rstest]
#[case::other(b"secret", b"Secret")]
#[case::none_here(b"", b"secret")]
#[case::none_there(b"secret", b"")]
fn another_secret_is_refused_on_both_sides(#[case] here: &[u8], #[case] there: &[u8]) {
    let (server, client, client_keys, server_keys) = parties(here, there);
    assert_eq!(
        server.hello(client.hello(), &server_keys),
        Err(Status::WrongProof)
    );
    // A server that accepts any client cannot prove itself to a client with a secret.
    let reply = server.reply(client.hello(), Status::Welcome, &[9; SESSION], &server_keys);
    assert_eq!(
        client.reply(&reply, &client_keys),
        Err(HandshakeError::Proof)
    );
    let reply = server.reply(
        client.hello(),
        Status::WrongProof,
        &[9; SESSION],
        &server_keys,
    );
    assert_eq!(
        client.reply(&reply, &client_keys),
        Ok((Status::WrongProof, [0; SESSION]))
    );
}

#[rstest]
fn whoever_has_proved_nothing_gets_nothing_to_try_guesses_on(
    #[values(Status::WrongProof, Status::OtherVersion)] status: Status,
) {
    let (server, client, _, keys) = parties(b"guess", b"secret");
    let said = server.reply(client.hello(), status, &[9; SESSION], &keys);
    let other = Keys::new(b"another secret");
    let same = server.reply(client.hello(), status, &[9; SESSION], &other);
    assert_eq!(said, same, "{status:?} depends on the secret");
}

#[test]
fn a_refusal_of_somebody_who_has_proved_itself_is_proven_too() {
    let (server, client, client_keys, keys) = parties(b"secret", b"secret");
    let mut reply = server.reply(client.hello(), Status::OtherSize, &[9; SESSION], &keys);
    let read = client.reply(&reply, &client_keys);
    assert_eq!(read, Ok((Status::OtherSize, [0; SESSION])));
    reply[REPLY - PROOF..].fill(0);
    let read = client.reply(&reply, &client_keys);
    assert_eq!(read, Err(HandshakeError::Proof));
}

#[test]
fn every_link_and_direction_has_a_secret_of_its_own() {
    let secrets = |nonce: u8, link: LinkKind, beyond: bool| {
        let keys = Keys::new(b"secret");
        let server = Server::new([1; NONCE], beyond);
        let hello = Hello { link, ..said() };
        let client = Client::new(server.challenge(), &hello, &[nonce; NONCE], &keys).unwrap();
        let reply = server.reply(client.hello(), Status::Welcome, &[9; SESSION], &keys);
        let (here, there) = (
            client.secrets(&reply, &keys),
            server.secrets(client.hello(), &reply, &keys),
        );
        assert_eq!(here.to_server, there.to_server);
        assert_eq!(here.to_client, there.to_client);
        [here.to_server, here.to_client]
    };
    let mut all = [
        secrets(2, LinkKind::Data, true),
        secrets(2, LinkKind::Watch, true),
        secrets(2, LinkKind::Ring, true),
        secrets(3, LinkKind::Data, true),
        secrets(2, LinkKind::Data, false),
    ]
    .concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10);
}

#[test]
fn a_recorded_hello_is_worth_nothing_against_another_nonce() {
    let (_, client, _, keys) = parties(b"secret", b"secret");
    let later = Server::new([5; NONCE], true);
    assert_eq!(later.hello(client.hello(), &keys), Err(Status::WrongProof));
}

#[test]
fn a_proof_cannot_be_sent_back_as_the_other_one() {
    let (server, client, client_keys, keys) = parties(b"secret", b"secret");
    let mut reply = server.reply(client.hello(), Status::Welcome, &[9; SESSION], &keys);
    reply[REPLY - PROOF..].copy_from_slice(&client.hello()[HELLO - PROOF..]);
    assert_eq!(
        client.reply(&reply, &client_keys),
        Err(HandshakeError::Proof)
    );
    let mut hello = *client.hello();
    let (said, proof) = hello.split_at_mut(HELLO - PROOF);
    proof.copy_from_slice(&keys.server_proof(&[server.challenge(), said]));
    assert_eq!(server.hello(&hello, &keys), Err(Status::WrongProof));
}

#[test]
fn other_versions_and_strangers_are_told_apart() {
    let keys = Keys::new(b"secret");
    let mut challenge = *Server::new([1; NONCE], true).challenge();
    challenge[9] = VERSION + 1;
    let newer = Client::new(&challenge, &said(), &[2; NONCE], &keys);
    assert_eq!(
        newer.unwrap_err(),
        HandshakeError::Version(u16::from(VERSION) + 1)
    );
    challenge[..8].copy_from_slice(b"SSH-2.0-");
    let stranger = Client::new(&challenge, &said(), &[2; NONCE], &keys);
    assert_eq!(stranger.unwrap_err(), HandshakeError::Stranger);
    assert!(!Server::tolerates(b"GET / HTTP/1.1"));
    assert!(Server::tolerates(b"cobre"));
    let (server, client, _, keys) = parties(b"secret", b"secret");
    let mut hello = *client.hello();
    hello[9] = 9;
    assert_eq!(server.hello(&hello, &keys), Err(Status::OtherVersion));
}

#[test]
fn a_job_id_of_any_length_is_compared() {
    assert_eq!(job(None), [0; 32]);
    assert_ne!(job(Some("")), [0; 32]);
    assert_ne!(job(Some("a")), job(Some(&"a".repeat(10_000))));
}

proptest! {
    #[test]
    fn every_flipped_bit_of_a_hello_is_noticed(at in 0..HELLO * 8) {
        let (server, client, _, keys) = parties(b"secret", b"secret");
        let mut hello = *client.hello();
        hello[at / 8] ^= 1 << (at % 8);
        prop_assert!(server.hello(&hello, &keys).is_err());
    }

    #[test]
    fn every_flipped_bit_of_a_welcome_is_noticed(at in 0..REPLY * 8) {
        let (server, client, client_keys, keys) = parties(b"secret", b"secret");
        let mut reply = server.reply(client.hello(), Status::Welcome, &[9; SESSION], &keys);
        reply[at / 8] ^= 1 << (at % 8);
        let welcome = matches!(client.reply(&reply, &client_keys), Ok((Status::Welcome, _)));
        prop_assert!(!welcome);
    }

    #[test]
    fn any_bytes_are_understood_or_refused(hello in proptest::collection::vec(any::<u8>(), HELLO)) {
        let (server, _, _, keys) = parties(b"secret", b"secret");
        let mut bytes = [0; HELLO];
        bytes.copy_from_slice(&hello);
        prop_assert!(server.hello(&bytes, &keys).is_err());
        let _ = Hello::decode(&hello);
    }
}
