#include "millrace/trainer/tensor/kept_values.h"

#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
T* KeptWindow<T>::place(int64_t offset) {
  offset_ = offset;
  return scratch_ != nullptr ? scratch_ : kept_.full_ + offset;
}

template <typename T>
void KeptWindow<T>::keep() {
  if (scratch_ != nullptr) kernels<T>().to_bfloat16(scratch_, size_, kept_.rounded_ + offset_);
}

template <typename T>
const T* KeptWindow<T>::values(int64_t offset) {
  if (scratch_ == nullptr) return kept_.full_ + offset;
  kernels<T>().from_bfloat16(kept_.rounded_ + offset, size_, scratch_);
  return scratch_;
}

template class KeptWindow<float>;
template class KeptWindow<double>;

}  // namespace millrace
