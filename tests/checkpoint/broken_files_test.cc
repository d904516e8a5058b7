// Damaged and lying files: each is refused with a sentence that names the thing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_files.h"

namespace seekline::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SafetensorsFile two_tensors() {
  SafetensorsFile file;
  file.add("a", "F32", {2, 2}, std::string(16, '\1'));
  file.add("b", "BF16", {3}, std::string(6, '\2'));
  return file;
}

struct BrokenFile {
  const char* name;
  std::function<std::string()> bytes;
  std::vector<std::string> said;  // substrings of the one sentence
};

std::string with_header(const std::string& header, const std::string& data = "") {
  return length_of(header.size()) + header + data;
}

std::string edited(const std::function<void(SafetensorsFile&)>& edit) {
  SafetensorsFile file = two_tensors();
  edit(file);
  return file.bytes();
}

const std::string kEntry = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";

// A table.
// NOLINTNEXTLINE(readability-function-size)
std::vector<BrokenFile> broken_files() {
  using F = SafetensorsFile;
  return {
      {"Empty", [] { return std::string(); }, {"0 bytes long"}},
      {"SevenBytes", [] { return std::string(7, '\0'); }, {"7 bytes long"}},
      {"HeaderLengthOnly", [] { return length_of(100); }, {"claims 100 bytes", "ends after 0"}},
      {"HeaderLengthZero", [] { return length_of(0) + "xx"; }, {"not a JSON object"}},
      {"HeaderBeyondFile",
       [] { return length_of(5000) + two_tensors().bytes().substr(8); },
       {"claims 5000 bytes"}},
      {"HeaderOver100MB", [] { return length_of(100'000'001) + "{}"; }, {"100000001", "limit of 100000000"}},
      {"HeaderLengthHuge",
       [] { return length_of(~std::uint64_t{0}) + "{}"; },
       {"18446744073709551615", "limit"}},
      {"HeaderLengthOneShort",
       [] {
         std::string b = two_tensors().bytes();
         --b[0];
         return b;
       },
       {"JSON is damaged"}},
      {"HeaderIsText", [] { return with_header("hello there"); }, {"not a JSON object"}},
      {"HeaderIsList", [] { return with_header("[1,2,3]"); }, {"not a JSON object"}},
      {"HeaderStartsWithSpace", [] { return with_header(" {}"); }, {"not a JSON object"}},
      {"HeaderCutInTheMiddle",
       [] { return with_header(R"({"a":{"dtype":"U8","sha)"); },
       {"JSON is damaged at byte"}},
      {"HeaderWithZeroByte", [] { return with_header(std::string("{\"a\":\0}", 7)); }, {"JSON is damaged"}},
      {"HeaderFollowedByText", [] { return with_header("{} x"); }, {"JSON is damaged"}},
      {"HeaderNestedDeep",
       [] { return with_header("{\"a\":" + std::string(100000, '[')); },
       {"JSON is damaged"}},
      {"HeaderBadUtf8",
       [] { return with_header("{\"\xff\xfe\":" + kEntry + "}", "1234"); },
       {"JSON is damaged"}},
      {"MetadataNotText",
       [] { return with_header(R"({"__metadata__":{"n":1}})"); },
       {"__metadata__", "text"}},
      {"MetadataTwice",
       [] { return with_header(R"({"__metadata__":{},"__metadata__":{}})"); },
       {"__metadata__", "twice"}},
      {"CutByAByte",
       [] {
         std::string b = two_tensors().bytes();
         b.pop_back();
         return b;
       },
       {"'b'", "ends at byte 22", "only 21"}},
      {"CutByHalf",
       [] {
         std::string b = two_tensors().bytes();
         return b.substr(0, b.size() - 11);
       },
       {"'a' (and 1 more)", "cut short"}},
      {"TrailingByte", [] { return two_tensors().bytes() + "x"; }, {"1 trailing bytes"}},
      {"TrailingPage",
       [] { return two_tensors().bytes() + std::string(4096, '\0'); },
       {"4096 trailing bytes"}},
      {"SameNameTwice",
       [] {
         return with_header(
             "{\"a\":" + kEntry + ",\"a\":" + R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})" + "}",
             "12345678");
       },
       {"'a'", "names it twice"}},
      {"SameBytesTwice",
       [] { return with_header("{\"a\":" + kEntry + ",\"b\":" + kEntry + "}", "1234"); },
       {"'b'", "overlaps tensor 'a'"}},
      {"Overlapping",
       [] {
         return edited([](F& f) {
           f.header["b"]["data_offsets"] = {15, 21};
           f.data.pop_back();
         });
       },
       {"'b'", "begins at byte 15", "overlaps tensor 'a'"}},
      {"Gap",
       [] {
         return edited([](F& f) {
           f.header["b"]["data_offsets"] = {20, 26};
           f.data += "xxxx";
         });
       },
       {"'b'", "4 bytes before it belong to no tensor"}},
      {"GapAtStart",
       [] { return with_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", "12345678"); },
       {"'a'", "4 bytes before it"}},
      {"DtypeUnknown",
       [] { return edited([](F& f) { f.header["b"]["dtype"] = "F4"; }); },
       {"'b'", "dtype 'F4'"}},
      {"DtypeLowerCase",
       [] { return edited([](F& f) { f.header["b"]["dtype"] = "bf16"; }); },
       {"'b'", "dtype 'bf16'"}},
      {"DtypeNumber",
       [] { return edited([](F& f) { f.header["b"]["dtype"] = 16; }); },
       {"'b'", "wrong type"}},
      {"DtypeMissing",
       [] { return edited([](F& f) { f.header["b"].erase("dtype"); }); },
       {"'b'", "no dtype"}},
      {"ShapeMissing",
       [] { return edited([](F& f) { f.header["b"].erase("shape"); }); },
       {"'b'", "no shape"}},
      {"OffsetsMissing",
       [] { return edited([](F& f) { f.header["b"].erase("data_offsets"); }); },
       {"'b'", "no data_offsets"}},
      {"ShapeNegative",
       [] { return edited([](F& f) { f.header["b"]["shape"] = {-3}; }); },
       {"'b'", "number -3"}},
      {"ShapeFraction",
       [] { return edited([](F& f) { f.header["b"]["shape"] = {1.5}; }); },
       {"'b'", "1.5", "whole number"}},
      {"ShapeText", [] { return edited([](F& f) { f.header["b"]["shape"] = "3"; }); }, {"'b'", "wrong type"}},
      {"ShapeOverflows",
       [] { return edited([](F& f) {
              f.header["b"]["shape"] = {1LL << 32, 1LL << 32};
            }); },
       {"'b'", "larger than any file"}},
      {"ShapeOverflowsToZero",
       [] {
         return edited([](F& f) {
           f.header["b"]["shape"] = {1LL << 62, 4};
           f.header["b"]["data_offsets"] = {16, 16};
           f.data.resize(16);
         });
       },
       {"'b'", "larger than any file"}},
      {"ShapeBytesOverflow",
       [] { return edited([](F& f) { f.header["b"]["shape"] = {1LL << 62}; }); },
       {"'b'", "larger than any file"}},
      {"ShapeBeyond63Bits",
       [] {
         return with_header(R"({"b":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]}})",
                            "1234");
       },
       {"'b'", "beyond any sane size"}},
      {"ShapeBeyond64Bits",
       [] {
         return with_header(R"({"b":{"dtype":"U8","shape":[99999999999999999999999],"data_offsets":[0,4]}})",
                            "1234");
       },
       {"'b'", "whole number"}},
      {"ShapeOfManyAxes",
       [] { return edited([](F& f) { f.header["b"]["shape"] = std::vector<int>(100, 1); }); },
       {"'b'", "beyond any sane size"}},
      {"ShapeLies",
       [] { return edited([](F& f) { f.header["b"]["shape"] = {4}; }); },
       {"'b'", "span 6 bytes", "takes 8"}},
      {"DtypeLies",
       [] { return edited([](F& f) { f.header["b"]["dtype"] = "F32"; }); },
       {"'b'", "span 6 bytes", "takes 12"}},
      {"OffsetsBackwards",
       [] { return edited([](F& f) {
              f.header["b"]["data_offsets"] = {22, 16};
            }); },
       {"'b'", "run backwards"}},
      {"OffsetsOfOne",
       [] { return edited([](F& f) { f.header["b"]["data_offsets"] = {16}; }); },
       {"'b'", "holds 1 numbers"}},
      {"OffsetsOfThree",
       [] { return edited([](F& f) {
              f.header["b"]["data_offsets"] = {16, 22, 22};
            }); },
       {"'b'", "holds 3 numbers"}},
      {"OffsetsBeyondFile",
       [] { return edited([](F& f) {
              f.header["b"]["data_offsets"] = {1000016, 1000022};
            }); },
       {"'b'", "1000022"}},
      {"OffsetsNested",
       [] { return edited([](F& f) {
              f.header["b"]["data_offsets"] = {{16}, {22}};
            }); },
       {"'b'", "array where none belongs"}},
      {"UnknownKey",
       [] { return edited([](F& f) { f.header["b"]["stride"] = 1; }); },
       {"'b'", "unknown key 'stride'"}},
      {"KeyTwice",
       [] {
         return with_header(R"({"b":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234");
       },
       {"'b'", "dtype twice"}},
      {"EntryIsNull", [] { return edited([](F& f) { f.header["b"] = nullptr; }); }, {"'b'", "not an object"}},
      {"EntryIsList", [] { return edited([](F& f) {
                             f.header["b"] = {1, 2};
                           }); }, {"'b'", "is an array"}},
      {"EntryHoldsObject",
       [] { return edited([](F& f) {
              f.header["b"]["shape"] = {{"x", 3}};
            }); },
       {"'b'", "nested object"}},
  };
}

class BrokenFileTest : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenFileTest, IsRefusedWithASentenceThatNamesTheThing) {
  const TempFolder folder;
  write_bytes(folder.path() / "model.safetensors", GetParam().bytes());
  const Error error = error_of([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.code(), ErrorCode::kBadFile) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("model.safetensors"));
  EXPECT_LT(std::string(error.what()).size(), 1000U);
  for (const std::string& said : GetParam().said) EXPECT_THAT(error.what(), HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenFileTest, ::testing::ValuesIn(broken_files()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BrokenFilesTest, AreAtLeastFifty) { EXPECT_GE(broken_files().size(), 50U); }

TEST(BrokenFilesTest, AWholeFileIsRead) {
  const TempFolder folder;
  write_bytes(folder.path() / "model.safetensors", two_tensors().bytes());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  ASSERT_EQ(checkpoint.tensors().size(), 2U);
  EXPECT_EQ(checkpoint.tensor_bytes(), 22);
  const Tensor* b = checkpoint.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kBF16);
  EXPECT_EQ(b->shape_text(), "[3]");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b->data), 6), std::string(6, '\2'));
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST(BrokenFilesTest, EmptyTensorsAreAllowed) {
  const TempFolder folder;
  SafetensorsFile file = two_tensors();
  file.add("empty", "F32", {0, 7}, "");
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  EXPECT_EQ(Checkpoint::open(folder.path()).find("empty")->elements(), 0);
}

TEST(BrokenFilesTest, AllProblemsOfAFileAreReportedTogether) {
  const TempFolder folder;
  SafetensorsFile file = two_tensors();
  file.header["a"]["dtype"] = "F99";
  file.header["b"]["shape"] = {5};
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  const Error error = error_of([&] { Checkpoint::open(folder.path()); });
  ASSERT_EQ(error.problems().size(), 2U) << error.what();
  EXPECT_THAT(error.problems()[0], HasSubstr("'a'"));
  EXPECT_THAT(error.problems()[1], HasSubstr("'b'"));
}

TEST(BrokenFilesTest, ThousandsOfProblemsAreCountedNotListed) {
  const TempFolder folder;
  SafetensorsFile file;
  for (int i = 0; i < 3000; ++i)
    file.header["t" + std::to_string(i)] = {{"dtype", "F99"}, {"shape", {1}}, {"data_offsets", {0, 1}}};
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  const Error error = error_of([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.problems().size(), 51U);
  EXPECT_EQ(error.problems().back(), "and 2950 more");
}

// A sharded checkpoint of two files, to be broken.
struct Shards {
  SafetensorsFile first, second;
  json index;
  TempFolder folder;

  Shards() {
    first.add("a", "U8", {4}, "aaaa");
    second.add("b", "U8", {4}, "bbbb");
    index["metadata"] = {{"total_size", 8}};
    index["weight_map"] = {{"a", "model-00001-of-00002.safetensors"},
                           {"b", "model-00002-of-00002.safetensors"}};
  }
  Checkpoint open(const std::string& index_text) {
    write_bytes(folder.path() / "model-00001-of-00002.safetensors", first.bytes());
    write_bytes(folder.path() / "model-00002-of-00002.safetensors", second.bytes());
    write_bytes(folder.path() / "model.safetensors.index.json", index_text);
    return Checkpoint::open(folder.path());
  }
  Checkpoint open() { return open(index.dump()); }
};

TEST(BrokenIndexTest, WholeShardsAreRead) {
  Shards shards;
  const Checkpoint checkpoint = shards.open();
  EXPECT_EQ(checkpoint.files().size(), 2U);
  EXPECT_EQ(checkpoint.file_name(*checkpoint.find("b")), "model-00002-of-00002.safetensors");
}

struct BrokenIndex {
  const char* name;
  std::function<void(Shards&)> edit;
  std::vector<std::string> said;
};

std::vector<BrokenIndex> broken_indices() {
  return {
      {"TensorOnlyInIndex",
       [](Shards& s) {
         s.index["weight_map"]["c"] = "model-00001-of-00002.safetensors";
         s.open();
       },
       {"'c'", "no such tensor"}},
      {"TensorOnlyInShard",
       [](Shards& s) {
         s.second.add("c", "U8", {1}, "c");
         s.open();
       },
       {"'c' is not in model.safetensors.index.json"}},
      {"TensorInTheOtherShard",
       [](Shards& s) {
         s.index["weight_map"]["a"] = "model-00002-of-00002.safetensors";
         s.index["weight_map"]["b"] = "model-00001-of-00002.safetensors";
         s.open();
       },
       {"'a'", "but it stands in model-00001-of-00002"}},
      {"TensorInBothShards",
       [](Shards& s) {
         s.second.add("a", "U8", {4}, "aaaa");
         s.open();
       },
       {"'a'", "stands in model-00001-of-00002.safetensors and in model-00002"}},
      {"NamedTwice",
       [](Shards& s) {
         s.open(
             R"({"weight_map":{"a":"model-00001-of-00002.safetensors","a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
       },
       {"'a' twice"}},
      {"NoWeightMap", [](Shards& s) { s.open("{}"); }, {"no weight_map"}},
      {"TwoWeightMaps",
       [](Shards& s) { s.open(R"({"weight_map":{},"weight_map":{}})"); },
       {"two weight_maps"}},
      {"EmptyWeightMap", [](Shards& s) { s.open(R"({"weight_map":{}})"); }, {"weight_map is empty"}},
      {"NotJson", [](Shards& s) { s.open("weights!"); }, {"JSON is damaged"}},
      {"CutInTheMiddle",
       [](Shards& s) {
         const std::string text = s.index.dump();
         s.open(text.substr(0, text.size() / 2));
       },
       {"JSON is damaged"}},
      {"AList", [](Shards& s) { s.open("[]"); }, {"not a JSON object"}},
      {"MapOfNumbers",
       [](Shards& s) { s.open(R"({"weight_map":{"a":1}})"); },
       {"something else than file names"}},
      {"MapOfLists",
       [](Shards& s) { s.open(R"({"weight_map":{"a":["x"]}})"); },
       {"something else than file names"}},
      {"MapIsText", [](Shards& s) { s.open(R"({"weight_map":"a"})"); }, {"something else than file names"}},
      {"PathToElsewhere",
       [](Shards& s) {
         s.index["weight_map"]["a"] = "../secret.safetensors";
         s.open();
       },
       {"'../secret.safetensors' is not the name of a file"}},
      {"AbsolutePath",
       [](Shards& s) {
         s.index["weight_map"]["a"] = "/etc/passwd";
         s.open();
       },
       {"'/etc/passwd' is not the name"}},
      {"ShardCut",
       [](Shards& s) {
         s.second.data.pop_back();
         s.open();
       },
       {"model-00002-of-00002.safetensors", "'b'", "cut short"}},
      {"SingleFileBesideIndex",
       [](Shards& s) {
         write_bytes(s.folder.path() / "model.safetensors", s.first.bytes());
         s.open();
       },
       {"remove one"}},
  };
}

class BrokenIndexTest : public ::testing::TestWithParam<BrokenIndex> {};

TEST_P(BrokenIndexTest, IsRefusedWithASentenceThatNamesTheThing) {
  Shards shards;
  const Error error = error_of([&] { GetParam().edit(shards); });
  EXPECT_EQ(error.code(), ErrorCode::kBadFile) << error.what();
  for (const std::string& said : GetParam().said) EXPECT_THAT(error.what(), HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenIndexTest, ::testing::ValuesIn(broken_indices()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BrokenIndexTest, MissingShardIsNotFoundByName) {
  Shards shards;
  shards.open();
  fs::remove(shards.folder.path() / "model-00002-of-00002.safetensors");
  const Error error = error_of([&] { Checkpoint::open(shards.folder.path()); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("model-00002-of-00002.safetensors"));
}

TEST(BrokenIndexTest, DamageInSeveralShardsIsReportedTogether) {
  Shards shards;
  shards.first.data += "x";
  shards.second.data += "yy";
  const Error error = error_of([&] { shards.open(); });
  ASSERT_EQ(error.problems().size(), 2U);
  EXPECT_THAT(error.problems()[0], HasSubstr("model-00001"));
  EXPECT_THAT(error.problems()[1], HasSubstr("model-00002"));
}

TEST(BrokenIndexTest, FolderWithoutACheckpointSaysWhatItLacks) {
  const TempFolder folder;
  const Error empty = error_of([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(empty.code(), ErrorCode::kNotFound);
  EXPECT_THAT(empty.what(), HasSubstr("neither model.safetensors.index.json nor model.safetensors"));
  const Error absent = error_of([&] { Checkpoint::open(folder.path() / "absent"); });
  EXPECT_EQ(absent.code(), ErrorCode::kNotFound);
  EXPECT_THAT(absent.what(), HasSubstr("absent: is not a folder"));
}

}  // namespace
}  // namespace seekline::testing
