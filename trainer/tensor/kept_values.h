#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Values that an operator keeps from its forward pass for its backward pass, in the tape's `ActivationStorage`. They
/// belong to the tape and are given back when it begins anew.
template <typename T>
class KeptValues {
 public:
  /// None.
  KeptValues() = default;
  /// Room for `count` values.
  KeptValues(Tape<T>& tape, int64_t count)
      : full_(tape.storage() == ActivationStorage::kFull ? tape.template keep<T>(count) : nullptr),
        rounded_(full_ == nullptr ? tape.template keep<uint16_t>(count) : nullptr) {}

 private:
  template <typename>
  friend class KeptWindow;
  T* full_ = nullptr;
  uint16_t* rounded_ = nullptr;
};

/// A part of `KeptValues`, of a fixed size, as values to compute with: where they lie when they are kept as they are,
/// else in memory of the arena for as long as the window is there.
///
///     KeptWindow<T> window(tape.arena(), kept, size);
///     T* y = window.place(row * size);         // forward: compute into y, go on with y,
///     window.keep();                           // and keep it
///     const T* y = window.values(row * size);  // backward
template <typename T>
class KeptWindow {
 public:
  KeptWindow(Arena& arena, const KeptValues<T>& kept, int64_t size)
      : arena_(arena),
        kept_(kept),
        size_(size),
        scratch_(kept.rounded_ != nullptr ? arena.allocate<T>(size) : nullptr) {}
  KeptWindow(const KeptWindow&) = delete;
  KeptWindow& operator=(const KeptWindow&) = delete;
  ~KeptWindow() {
    if (scratch_ != nullptr) arena_.release(scratch_, size_);
  }

  /// Where to compute the values that are kept from `offset` on.
  T* place(int64_t offset);
  /// Keeps what is in the place that was asked for last. The values there stay as they were computed.
  void keep();
  /// The values that were kept from `offset` on, until the next call.
  const T* values(int64_t offset);

 private:
  Arena& arena_;
  const KeptValues<T> kept_;
  const int64_t size_;
  T* scratch_;
  int64_t offset_ = 0;
};

}  // namespace millrace
