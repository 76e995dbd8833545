//! A slow link: its bytes arrive a few at a time, and at some point stop arriving.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// How many bytes pass at a time, and how long that takes: 10 kB in a second.
const PIECE: usize = 1000;
const PAUSE: Duration = Duration::from_millis(100);

/// Forwards all connections to `listener`, slowly for larger amounts, for the whole life of this process. In
/// each direction of a connection, this many bytes pass; later ones never arrive.
pub(crate) fn slow(listener: TcpListener, to: u16, (up, down): (usize, usize)) {
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            let ways = [(&client, &server, up), (&server, &client, down)];
            for (from, to, most) in ways {
                let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                    continue;
                };
                std::thread::spawn(move || pass_on(from, to, most));
            }
        }
    });
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, most: usize) {
    let _ = to.set_nodelay(true);
    let mut bytes = [0; PIECE];
    let mut passed = 0;
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        passed += count;
        if passed > most {
            loop {
                std::thread::park();
            }
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
        if count == PIECE {
            std::thread::sleep(PAUSE);
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
