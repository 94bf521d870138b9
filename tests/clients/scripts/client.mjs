/** The official client, from where `make tools` puts it. */
export * from "../../conformance/node_modules/@durable-streams/client/dist/index.js"
