#include "trainer/tensor/same_padding.h"

#include <algorithm>

#include "trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
void read_patches(const SamePatches& geometry, const T* image, T* patches) {
  const int64_t channels = geometry.channels;
  std::fill_n(patches, geometry.count() * geometry.size(), T{0});
  geometry.for_each([&](int64_t patch, int64_t tap, int64_t pixel) {
    std::copy_n(image + pixel * channels, channels, patches + patch * geometry.size() + tap * channels);
  });
}

template <typename T>
void add_patches(const SamePatches& geometry, const T* patches, T* image) {
  const int64_t channels = geometry.channels;
  geometry.for_each([&](int64_t patch, int64_t tap, int64_t pixel) {
    kernels<T>().add(patches + patch * geometry.size() + tap * channels, channels, image + pixel * channels);
  });
}

template void read_patches(const SamePatches&, const float*, float*);
template void read_patches(const SamePatches&, const double*, double*);
template void add_patches(const SamePatches&, const float*, float*);
template void add_patches(const SamePatches&, const double*, double*);

}  // namespace millrace
