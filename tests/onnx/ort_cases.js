// Runs many small ONNX models in one process of ONNX Runtime.
// usage: node ort_cases.js FOLDER     (NODE_PATH names the folder of onnxruntime-node)
// FOLDER/cases.json: [{model, feeds: {name: {type, dims, at, bytes}}}], values in FOLDER/values.bin. It writes FOLDER/results.json,
// [{outputs: {name: {type, dims, at, bytes}}} or {error}], and FOLDER/results.bin.
// SPDX-License-Identifier: Apache-2.0
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');

const arrays = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
};

function tensorOf(values, f) {
  const copy = new Uint8Array(values.subarray(f.at, f.at + f.bytes)); // aligned
  return new ort.Tensor(f.type, new arrays[f.type](copy.buffer), f.dims);
}

async function run(folder, values, one, chunks) {
  const session = await ort.InferenceSession.create(path.join(folder, one.model), {
    intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'disabled', logSeverityLevel: 4,
  });
  const feeds = {};
  for (const [name, f] of Object.entries(one.feeds)) feeds[name] = tensorOf(values, f);
  const made = await session.run(feeds);
  const outputs = {};
  for (const name of session.outputNames) {
    const t = made[name];
    const bytes = Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength);
    outputs[name] = { type: t.type, dims: t.dims, at: chunks.size, bytes: bytes.length };
    chunks.list.push(Buffer.from(bytes));
    chunks.size += bytes.length;
  }
  await session.release();
  return { outputs };
}

async function main() {
  const folder = process.argv[2];
  const cases = JSON.parse(fs.readFileSync(path.join(folder, 'cases.json'), 'utf8'));
  const values = fs.readFileSync(path.join(folder, 'values.bin'));
  const chunks = { list: [], size: 0 }, results = [];
  for (const one of cases) {
    try {
      results.push(await run(folder, values, one, chunks));
    } catch (e) {
      results.push({ error: String(e.message || e) });
    }
  }
  fs.writeFileSync(path.join(folder, 'results.bin'), Buffer.concat(chunks.list));
  fs.writeFileSync(path.join(folder, 'results.json'), JSON.stringify(results));
}

main().catch((e) => { console.error(String(e)); process.exit(1); });
