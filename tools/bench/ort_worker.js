// Serves one ONNX model to tools/bench_models.py: the same commands and answers as `opc-bench model`.
// usage: node ort_worker.js MODEL.onnx X.npy|FOLDER THREADS     (NODE_PATH names the folder of onnxruntime-node)
// X.npy is what the first input gets; a folder has NAME.npy for each input.
const fs = require('fs');
const path = require('path');
const readline = require('readline');

function memory() {
  const answer = {};
  for (const line of fs.readFileSync('/proc/self/status', 'utf8').split('\n')) {
    const found = line.match(/^(VmRSS|VmHWM):\s+(\d+)/);
    if (found) answer[found[1]] = Number(found[2]) * 1024;
  }
  return answer;
}

const node = memory(); // without ONNX Runtime's library: for comparisons with a whole program
const ort = require('onnxruntime-node');

const types = {
  '<f4': ['float32', Float32Array], '<f2': ['float16', Uint16Array], '<f8': ['float64', Float64Array], '<i8': ['int64', BigInt64Array],
  '<i4': ['int32', Int32Array], '|i1': ['int8', Int8Array], '|u1': ['uint8', Uint8Array], '|b1': ['bool', Uint8Array],
};

function readNpy(path) {
  const bytes = fs.readFileSync(path);
  const begin = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, begin);
  const [type, Values] = types[header.match(/'descr':\s*'([^']*)'/)[1]];
  const dims = header.match(/'shape':\s*\(([^)]*)\)/)[1].split(',').filter((s) => s.trim()).map(Number);
  return new ort.Tensor(type, new Values(bytes.buffer.slice(bytes.byteOffset + begin, bytes.byteOffset + bytes.length)), dims);
}

function writeNpy(path, tensor) {
  const [descr] = Object.entries(types).find(([, [type]]) => type === tensor.type);
  let header = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${tensor.dims.map((d) => `${d},`).join(' ')}), }`;
  header = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n';
  const head = Buffer.alloc(10);
  head.write('\x93NUMPY\x01\x00', 'latin1');
  head.writeUInt16LE(header.length, 8);
  const data = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  fs.writeFileSync(path, Buffer.concat([head, Buffer.from(header, 'latin1'), data]));
}

async function main() {
  const [model, input, threads] = process.argv.slice(2);
  const before = memory();
  const start = process.hrtime.bigint();
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'all',
  });
  const each = fs.statSync(input).isDirectory();
  const feeds = {};
  const feed = () => {
    for (const name of each ? session.inputNames : [session.inputNames[0]]) feeds[name] = readNpy(each ? path.join(input, `${name}.npy`) : input);
  };
  feed();
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');
  say({ ready: true, load: Number(process.hrtime.bigint() - start) / 1e9, before, node });
  let result = null;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...args] = line.split(' ');
    if (command === 'quit') process.exit(0);
    if (command === 'run') {
      const times = [];
      for (let i = 0; i < Number(args[0]); ++i) {
        const begin = process.hrtime.bigint();
        result = await session.run(feeds);
        times.push(Number(process.hrtime.bigint() - begin) / 1e9);
      }
      say({ times });
    } else if (command === 'feed') { // the same files again
      feed();
      say({ fed: input });
    } else if (command === 'output') {
      writeNpy(args[1], result[session.outputNames[0]]);
      say({ written: args[1] });
    } else if (command === 'outputs') {
      for (const name of session.outputNames) writeNpy(path.join(args[0], `${name}.npy`), result[name]);
      say({ written: args[0] });
    } else if (command === 'memory') {
      say(memory());
    }
  }
}

main().catch((e) => { console.error(String(e)); process.exit(1); });
