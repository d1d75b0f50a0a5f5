/* Arrays of NumPy's .npy files, as far as inputs and outputs of a model need them. */
#ifndef CALIB8_NPY_H
#define CALIB8_NPY_H

#include <calib8.h>
#include <stdio.h>

/* Reads an array of the type and shape of a tensor into its bytes. NULL, or what is wrong with the file. */
const char* npy_read(FILE* file, const calib8_tensor* tensor, void* data);

/* Writes it; not 0 where that fails. */
int npy_write(FILE* file, const calib8_tensor* tensor, const void* data);

#endif
