#pragma once

#include <string>
#include <vector>

#include "millrace/pipeline/dataset.h"
#include "tests/contract/model.h"

namespace millrace::test {

// Functions of a user, for map and filter, and the same on elements of models.

// Sets `number`, int64 []: 1000 × the number of the element's first row + the epoch of its rows. Wrong when rows are
// numbered otherwise than they should be.
[[nodiscard]] RowFunction number_rows();
void number_rows(const Schema& before, ModelElement& element, int64_t ordinal);

// Sets `span`, int64 [?]: as many values as `digest` of the element modulo 4, so that shapes vary.
[[nodiscard]] RowFunction span_rows();
void span_rows(const Schema& before, ModelElement& element);

// In the place of all features `image` uint8 [4,4,3], `large` float32 [6,6,1] and `label` float32 [3], one-hot, made of
// the digest.
[[nodiscard]] RowFunction image_rows();
void image_rows(ModelElement& element);

// In the place of all features `picture`, bytes []: a JPEG, or a PNG with alpha or without, of up to 3 × 4 pixels,
// which lies in one of the eight ways that EXIF has; one in nine is "no picture".
[[nodiscard]] RowFunction picture_rows();
void picture_rows(ModelElement& element);

// In the place of all features `record`, bytes [?]: up to three of the record that the element is, so that elements
// have unlike numbers of records and some have none.
[[nodiscard]] RowFunction copied_records();
void copied_records(ModelElement& element);

// Throws for elements whose digest modulo `divisor` is `remainder`.
[[nodiscard]] RowFunction fail_rows(int64_t divisor, int64_t remainder);
void fail_rows(ModelElement& element, int64_t divisor, int64_t remainder);

// The int64 feature with its sign turned, by a function on blocks.
[[nodiscard]] Dataset negate_blocks(const Dataset& input, const std::string& feature);

// Makes a dataset of up to three shuffled numbers, `value`, of the digest of an element, and one more that is an error
// now and then; throws for every seventh digest.
[[nodiscard]] DatasetFunction few_numbers();
[[nodiscard]] std::optional<Model> few_numbers(const ModelElement& element);

// Carries how many elements it has seen, the sum of their digests modulo 100, and half of the number; sets `number` to
// all of them together. Throws, with half of its work done, for elements whose digest modulo `divisor` is `remainder`.
[[nodiscard]] ScanFunction add_up_rows(int64_t divisor, int64_t remainder);
void add_up_rows(const Schema& before, ScanNumbers& carried, ModelElement& element, int64_t divisor, int64_t remainder);

// Drops elements whose digest modulo `divisor` is `remainder`.
[[nodiscard]] RowPredicate drop_rows(int64_t divisor, int64_t remainder);
[[nodiscard]] BlockPredicate drop_in_blocks(int64_t divisor, int64_t remainder);

// Groups of elements by their digest modulo `divisor`; and how many are to be in each.
[[nodiscard]] RowKey digest_modulo(int64_t divisor);
[[nodiscard]] int64_t digest_modulo(const ModelElement& element, int64_t divisor);
[[nodiscard]] WindowSize two_and_key();
[[nodiscard]] int64_t two_and_key(int64_t key);

// Makes up to `count` elements of all kinds, an epoch fewer each time, and throws for one in eleven.
[[nodiscard]] Generator some_rows(int64_t count, GeneratorRuns::Rule rule);
[[nodiscard]] Model some_rows(int64_t count);

// By id of a vocabulary of 50, whether it starts a word.
[[nodiscard]] std::vector<bool> even_ids();

// A number made of all values of an element.
[[nodiscard]] uint64_t digest(const RowView& row);
[[nodiscard]] uint64_t digest(const ModelElement& element);
[[nodiscard]] bool digest_is(uint64_t digest, int64_t divisor, int64_t remainder);

}  // namespace millrace::test
