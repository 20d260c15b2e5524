// Saves an ONNX model as ONNX Runtime's optimizer rewrites it.
// usage: node ort_optimize.js MODEL.onnx OUT.onnx basic|extended     (NODE_PATH names the folder of onnxruntime-node)
const ort = require('onnxruntime-node');
const [model, out, level] = process.argv.slice(2);
ort.InferenceSession.create(model, { optimizedModelFilePath: out, graphOptimizationLevel: level, logSeverityLevel: 3 }).then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(String(error) + '\n');
    process.exit(1);
  });
