// RFC 8785 and HMAC-SHA256 by an implementation that shares nothing with ours: one JSON line in, one line out.
//   ["canonical", VALUE]            the canonical form of VALUE
//   ["sign", ENVELOPE, KEY_HEX]     the envelope's MAC, computed as a sidecar in another language would
import { createHmac } from "node:crypto";

// Array.prototype.sort without a comparator orders strings by UTF-16 code units, as section 3.2.3 asks.
function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value).sort().map((key) => JSON.stringify(key) + ":" + canonical(value[key]));
    return "{" + members.join(",") + "}";
  }
  return JSON.stringify(value);
}

function mac(envelope, keyHex) {
  const { value, ...signature } = envelope.signature;
  const unsigned = canonical({ ...envelope, signature });
  return createHmac("sha256", Buffer.from(keyHex, "hex")).update(unsigned, "utf8").digest("hex");
}

// Parted by line feeds alone: U+2028 inside a string ends no line.
let text = "";
process.stdin.setEncoding("utf8");
for await (const chunk of process.stdin) text += chunk;
const answers = [];
for (const line of text.split("\n")) {
  if (line === "") continue;
  const [task, value, keyHex] = JSON.parse(line);
  answers.push(task === "sign" ? mac(value, keyHex) : canonical(value));
}
process.stdout.write(answers.join("\n") + "\n");
