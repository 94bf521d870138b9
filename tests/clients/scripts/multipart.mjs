/** A multipart body as @fastify/busboy's parser reads it, which knows nothing of our server. */
import Dicer from "../../conformance/node_modules/@fastify/busboy/deps/dicer/lib/Dicer.js"
import { play } from "./play.mjs"

/** Pieces of a prime size, so that boundaries are cut in every way. */
function* pieces(body, size) {
  for (let start = 0; start < body.length; start += size) yield body.subarray(start, start + size)
}

/** A part may end after the parser has. */
async function content(part) {
  const pieces = []
  let type = null
  part.on("header", (header) => (type = header["content-type"][0]))
  for await (const piece of part) pieces.push(piece)
  return [type, Buffer.concat(pieces).toString("base64")]
}

function parts(body, boundary, size) {
  return new Promise((resolve, reject) => {
    const found = []
    const parser = new Dicer({ boundary })
    parser.on("part", (part) => found.push(content(part)))
    parser.on("error", reject)
    parser.on("finish", () => resolve(Promise.all(found)))
    for (const piece of pieces(body, size)) parser.write(piece)
    parser.end()
  })
}

await play(async ({ url, size }) => {
  const response = await fetch(url)
  const [, boundary] = /^multipart\/mixed; boundary=(\S+)$/.exec(response.headers.get("content-type"))
  return parts(Buffer.from(await response.arrayBuffer()), boundary, size)
})
