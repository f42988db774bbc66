//! Pictures as PNG.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// A picture that is done.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) png: Vec<u8>,
}

/// Red, green and blue.
pub(super) type Colour = [u8; 3];

/// A picture in the making.
pub(super) struct Canvas {
    width: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize, colour: Colour) -> Self {
        Self { width, pixels: vec![colour; width * height] }
    }

    /// Fills a rectangle; what is outside of the picture is not drawn.
    pub(super) fn fill(&mut self, x: [usize; 2], y: [usize; 2], colour: Colour) {
        let rows = self.pixels.chunks_exact_mut(self.width).take(y[1]).skip(y[0]);
        for row in rows {
            row.iter_mut().take(x[1]).skip(x[0]).for_each(|pixel| *pixel = colour);
        }
    }

    pub(super) fn picture(&self) -> io::Result<Picture> {
        let size = [self.width, self.pixels.len() / self.width];
        let [width, height] = size.map(|pixels| i32::try_from(pixels).unwrap_or(i32::MAX));
        let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.pixels.chunks_exact(self.width) {
            rows.write_all(&[0])?; // no filter
            rows.write_all(row.as_flattened())?;
        }
        let mut head = Vec::from(width.to_be_bytes());
        head.extend(height.to_be_bytes());
        // 8 bits a channel, true colour, the only compression and filter, not interlaced.
        head.extend([8, 2, 0, 0, 0]);
        let mut png = Vec::from(b"\x89PNG\r\n\x1a\n");
        chunk(*b"IHDR", &head, &mut png);
        chunk(*b"IDAT", &rows.finish()?, &mut png);
        chunk(*b"IEND", &[], &mut png);
        Ok(Picture { width, height, png })
    }
}

fn chunk(name: [u8; 4], content: &[u8], png: &mut Vec<u8>) {
    let mut checksum = Crc::new();
    checksum.update(&name);
    checksum.update(content);
    png.extend((content.len() as u32).to_be_bytes());
    png.extend(name);
    png.extend(content);
    png.extend(checksum.sum().to_be_bytes());
}
