// Chat, completion, streaming, abort, errors and usage through the official clients, and the fields of what arrives.
// Usage: node clients.mjs URL KEY SCHEMA
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const [url, key, schema] = process.argv.slice(2);
const messages = [{ role: "user", content: "Tell a story about Mira and a fox." }];
const client = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 0 });

// every field where OpenAI's reference has it
const ajv = new Ajv({ strict: false });
ajv.addSchema(JSON.parse(readFileSync(schema, "utf8")));
function valid(kind, json) {
    const validate = ajv.getSchema(`openai#/$defs/${kind}`);
    assert.ok(validate(json), `${kind}: ${JSON.stringify(validate.errors)} in ${JSON.stringify(json)}`);
}
async function raw(path, body) {
    const headers = { "Content-Type": "application/json", authorization: "Bearer " + key };
    return (await fetch(url + path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers })).text();
}
function chunks(text) {
    return text.split("\n\n").filter((part) => part.startsWith("data: {")).map((part) => JSON.parse(part.slice(6)));
}
const stream_options = { include_usage: true };
valid("models", JSON.parse(await raw("/v1/models")));
valid("chat", JSON.parse(await raw("/v1/chat/completions", { messages, n: 2, max_tokens: 8 })));
valid("completion", JSON.parse(await raw("/v1/completions", { prompt: ["a", "b"], max_tokens: 8 })));
for (const options of [{}, { stream_options }, { diffusing: true }, { diffusion_frames: true, attention: { reduce: "layers" }, stream_options }]) {
    const pieces = chunks(await raw("/v1/chat/completions", { messages, max_tokens: 8, stream: true, ...options }));
    assert.ok(pieces.length > 1);
    pieces.forEach((piece) => valid("chat_chunk", piece));
    chunks(await raw("/v1/completions", { prompt: "a", max_tokens: 8, stream: true, ...options })).forEach((piece) => valid("completion", piece));
}
for (const [path, body] of [["/v1/chat/completions", {}], ["/nowhere", null], ["/v1/completions", { prompt: "x", temperature: "hot" }]]) {
    valid("error", JSON.parse(await raw(path, body)));
}

const models = await client.models.list();
const model = models.data[0].id;
assert.equal(model, "buoy-mdm");

// chat, with usage
const whole = await client.chat.completions.create({ model, messages, seed: 1, max_tokens: 24 });
const text = whole.choices[0].message.content;
assert.equal(whole.choices[0].message.role, "assistant");
assert.ok(text.length > 20, text);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
assert.equal(whole.usage.completion_tokens, 24);
assert.equal(whole.choices[0].finish_reason, "length");

// the same, streamed
let streamed = "", usage = null, reason = null;
const stream = await client.chat.completions.create({ model, messages, seed: 1, max_completion_tokens: 24, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
    reason = chunk.choices[0]?.finish_reason ?? reason;
    usage = chunk.usage ?? usage;
}
assert.equal(streamed, text);
assert.equal(reason, "length");
assert.deepEqual(usage, whole.usage);

// the client's own helper puts the pieces together
const runner = client.chat.completions.stream({ model, messages, seed: 1, max_tokens: 24 });
assert.equal((await runner.finalChatCompletion()).choices[0].message.content, text);

// several answers
const three = await client.chat.completions.create({ model, messages, n: 3, temperature: 1, seed: 1, max_tokens: 8 });
assert.deepEqual(three.choices.map((choice) => choice.index), [0, 1, 2]);

// completion, with a stop text
const { prompt } = await client.post("/../apply-template", { body: { messages } });
const completion = await client.completions.create({ model, prompt, max_tokens: 24, seed: 1 });
assert.equal(completion.choices[0].text, text);
const word = text.split(" ")[3];
const stopped = await client.completions.create({ model, prompt, max_tokens: 24, seed: 1, stop: [word] });
assert.equal(stopped.choices[0].text, completion.choices[0].text.slice(0, completion.choices[0].text.indexOf(word)));
assert.equal(stopped.choices[0].finish_reason, "stop");

// errors are the classes that the client has for them
await assert.rejects(client.chat.completions.create({ model, messages: [] }), (e) => e instanceof OpenAI.BadRequestError && e.param === "messages");
await assert.rejects(client.chat.completions.create({ model: "gpt-0", messages }), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
await assert.rejects(client.chat.completions.create({ model, messages, response_format: { type: "json_object" } }), (e) => e instanceof OpenAI.BadRequestError && /JSON/.test(e.message));
const stranger = new OpenAI({ baseURL: url + "/v1", apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), (e) => e instanceof OpenAI.AuthenticationError);

// abort: the places are free again
const running = async () => (await (await fetch(url + "/slots", { headers: { authorization: "Bearer " + key } })).json()).filter((slot) => slot.is_processing).length;
const long = { model, messages, max_tokens: 400, ignore_eos: true, stream: true };
const aborted = await client.chat.completions.create(long);
for await (const chunk of aborted) {
    if (chunk.choices[0]?.delta?.content) {
        aborted.controller.abort();
        break;
    }
}
for (let i = 0; (await running()) > 0; i++) {
    assert.ok(i < 100, "an aborted request still runs");
    await new Promise((resolve) => setTimeout(resolve, 20));
}

// a full queue is an error that the client retries by itself
const patient = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 30 });
const many = await Promise.all(Array.from({ length: 8 }, (_, i) => patient.chat.completions.create({ model, messages, seed: i, max_tokens: 24 })));
assert.ok(many.every((one) => one.choices[0].message.content.length > 0));

// Vercel's AI SDK
const provider = createOpenAICompatible({ name: "buoy", baseURL: url + "/v1", apiKey: key, includeUsage: true });
const generated = await generateText({ model: provider(model), prompt: messages[0].content, seed: 1, maxOutputTokens: 24, maxRetries: 0 });
assert.equal(generated.text, text);
assert.equal(generated.finishReason, "length");
assert.equal(generated.usage.outputTokens, 24);
const live = streamText({ model: provider(model), prompt: messages[0].content, seed: 1, maxOutputTokens: 24, maxRetries: 0 });
let parts = "";
for await (const part of live.textStream) {
    parts += part;
}
assert.equal(parts, text);
assert.equal((await live.usage).outputTokens, 24);
await assert.rejects(generateText({ model: provider("gpt-0"), prompt: "x", maxRetries: 0 }), /no model/);
console.log("openai and @ai-sdk/openai-compatible: chat, completion, streaming, abort, errors and usage work");
