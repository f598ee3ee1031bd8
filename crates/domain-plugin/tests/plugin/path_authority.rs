//! A kubelet that dials by path sends the path as the authority, which an HTTP/2 library of ours would not: the frames are
//! written by hand.

use coppice_domain_plugin::wire;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::node::Stage;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags, 0, 0, 0, stream]);
    bytes.extend(payload);
    bytes
}

fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend(text.as_bytes());
    }
    bytes
}

#[tokio::test]
async fn a_request_with_an_escaped_path_as_authority_is_answered() {
    let stage = Stage::start().await;
    let running = stage.plugin().await.unwrap();
    let mut stream = UnixStream::connect(stage.settings.registration_socket()).await.unwrap();
    let headers: Vec<u8> = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/pluginregistration.Registration/GetInfo"),
        (":authority", "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    .iter()
    .flat_map(|(name, value)| header(name, value))
    .collect();
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    request.extend(frame(4, 0, 0, &[]));
    request.extend(frame(1, 4, 1, &headers));
    request.extend(frame(0, 1, 1, &[0; 5]));
    stream.write_all(&request).await.unwrap();
    let data = loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length.try_into().unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        assert_ne!(head[3], 3, "the stream was reset");
        if head[3] == 0 {
            break payload;
        }
    };
    let info = wire::PluginInfo::decode(&data[5..]).unwrap();
    assert_eq!(info.name, "compute-domain.nvidia.com");
    running.stop().await;
}
