// The enumerations of CBLAS, under their usual names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(CBLAS_H) && !defined(_MKL_CBLAS_H_)
enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112, CblasConjTrans = 113 };
#endif
