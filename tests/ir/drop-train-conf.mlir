// The job's training goes, the rest of the job stays; a job that was nothing else goes, too.
// RUN: opc-opt %s --opc-drop-train-conf --split-input-file | FileCheck %s

// CHECK: opc.job = #opc.job<
// CHECK-NOT: model_update_conf
// CHECK-SAME: rest = "job_conf { job_name: \22j\22 }"
// CHECK: func.func @named
module attributes {opc.job = #opc.job<trainConf = "model_update_conf { }", rest = "job_conf { job_name: \"j\" }">} {
  func.func @named() {
    return
  }
}

// -----

// CHECK-NOT: opc.job
// CHECK: func.func @only_training
module attributes {opc.job = #opc.job<trainConf = "model_update_conf { }", rest = "">} {
  func.func @only_training() {
    return
  }
}
