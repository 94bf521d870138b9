/** The three kinds of streams. Messages come from Python as JSON values; bytes come as base64. */
const KINDS = {
  json: {
    contentType: "application/json",
    encode: (message) => JSON.stringify(message),
    subscribe: (response, take) => response.subscribeJson(take),
    contentOf: (batch) => batch.items,
    readAll: (response) => response.json(),
    join: (contents) => contents.flat(),
  },
  text: {
    contentType: "text/plain",
    encode: (message) => message,
    subscribe: (response, take) => response.subscribeText(take),
    contentOf: (batch) => batch.text,
    readAll: (response) => response.text(),
    join: (contents) => contents.join(""),
  },
  bytes: {
    contentType: "application/octet-stream",
    encode: (message) => new Uint8Array(Buffer.from(message, "base64")),
    subscribe: (response, take) => response.subscribeBytes(take),
    contentOf: (batch) => Buffer.from(batch.data),
    readAll: async (response) => Buffer.from(await response.body()).toString("base64"),
    join: (contents) => Buffer.concat(contents).toString("base64"),
  },
}

export const kindOf = (name) => KINDS[name]
