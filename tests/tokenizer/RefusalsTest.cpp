// What is said about tokenizers' files that are wrong, or ask for what is not supported: the file, the place, the name.
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/sentencepiece.pb.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace mt::tests {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Refusals : public testing::Test {
protected:
  Refusals() {
    std::string pattern = (fs::temp_directory_path() / "mt-tokenizer-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~Refusals() override { fs::remove_all(folder); }

  std::string write(const std::string &name, std::string_view content) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << content;
    return (folder / name).string();
  }
  static std::string refusal(const std::string &path) {
    Result<std::unique_ptr<tokenizer::Tokenizer>> tokenizer = tokenizer::openTokenizer(path);
    return tokenizer ? "none" : tokenizer.status().message();
  }
  void expect(const std::string &path, const std::string &part) const {
    EXPECT_NE(refusal(path).find(part), std::string::npos) << "message: " << refusal(path) << "\nwant: " << part;
  }
  /// A tokenizer.json that is right but for a change.
  void expectOf(const std::function<void(json &)> &change, const std::string &part) const {
    json content = good();
    change(content);
    expect(write("tokenizer.json", content.dump()), part);
  }
  static json good() {
    return json::parse(R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
      "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
      "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
  }
  fs::path folder;
};

TEST_F(Refusals, WhereThereIsNone) {
  expect((folder / "none.json").string(),
         "--tokenizer " + (folder / "none.json").string() + ": no such file or folder");
  expect(write("vocab.txt", "a"), "vocab.txt: neither a tokenizer.json nor a .model of SentencePiece, by its name");
  fs::create_directory(folder / "empty");
  expect((folder / "empty").string(), "empty: the folder has no tokenizer.json and no .model of SentencePiece");
  write("two/a.model", "");
  write("two/b.model", "");
  expect((folder / "two").string(), "the folder has several models (");
}

TEST_F(Refusals, FilesThatAreNoJson) {
  expect(write("tokenizer.json", ""), "tokenizer.json: not JSON:");
  expect(write("tokenizer.json", "{\"model\":\n{]}"), "line 2, column 2");
  expect(write("tokenizer.json", "[1]"), "tokenizer.json: the file must be an object, and is a list");
  expect(write("tokenizer.json", "{\"a\":\"\xff\"}"), "not JSON");
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "{\"a\":";
  expect(write("tokenizer.json", deep), "not JSON");
}

TEST_F(Refusals, WhatTheFileIsMadeOf) {
  expectOf([](json &) {}, "none");
  expectOf([](json &all) { all["version"] = "2.0"; }, "\"version\" 2.0 is not supported: 1.0 is");
  expectOf([](json &all) { all["version"] = 1; }, "the file: \"version\" must be a text, and is a number");
  expectOf([](json &all) { all["novelty"] = 1; }, "the file: \"novelty\" is not supported");
  expectOf([](json &all) { all.erase("model"); }, "the file: no \"model\"");
  expectOf(
      [](json &all) {
        all["normalizer"] = {{"type", "Unheard"}};
      },
      "\"normalizer\": the normalizer Unheard is not supported");
  expectOf(
      [](json &all) {
        all["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
      },
      "\"pre_tokenizer\": the pre-tokenizer UnicodeScripts is not supported");
  expectOf(
      [](json &all) {
        all["post_processor"] = {{"type", "Unheard"}};
      },
      "the post-processor Unheard is not supported");
  expectOf([](json &all) { all["decoder"] = {{"type", "CTC"}}; }, "\"decoder\": the decoder CTC is not supported");
  expectOf([](json &all) { all["model"]["type"] = "Unheard"; }, "\"model\": the model Unheard is not supported");
  json many = json::array();
  for (int i = 0; i < 65; ++i)
    many.push_back({{"type", "NFC"}});
  expectOf(
      [&](json &all) {
        all["normalizer"] = {{"type", "Sequence"}, {"normalizers", many}};
      },
      "65 normalizers, pre-tokenizers or decoders are too many: 64 are supported");
}

TEST_F(Refusals, Normalizers) {
  auto of = [&](const char *step, const std::string &part) {
    expectOf([&](json &all) { all["normalizer"] = json::parse(step); }, part);
  };
  of(R"({"type": "NFC", "more": 1})", "\"normalizer\": \"more\" is not supported");
  of(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, 7]})",
     "\"normalizer\": \"normalizers\", entry 1 must be an object, and is a number");
  of(R"({"type": "Sequence", "normalizers": {}})", "\"normalizers\" must be a list, and is an object");
  of(R"({"type": "Strip", "strip_left": 1, "strip_right": true})",
     "\"strip_left\" must be true or false, and is a number");
  of(R"({"type": "Replace", "pattern": {"Glob": "x"}, "content": ""})", "\"pattern\": \"Glob\" is not supported");
  of(R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})", "\"String\" is empty");
  of(R"({"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""})",
     "the regular expression (a: a group that is not closed");
  of(R"({"type": "Precompiled", "precompiled_charsmap": "AAA"})", "\"precompiled_charsmap\" is no base64");
  of(R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})", "a map of characters of 3 bytes is cut short");
  of(R"({"type": "Precompiled", "precompiled_charsmap": "CAAAAGFi"})",
     "a trie of 8 bytes, and 2 are there, is damaged");
  of(R"({"type": "Precompiled", "precompiled_charsmap": "BAAAAGFiY2T/"})", "whose replacements are not UTF-8");
}

TEST_F(Refusals, PreTokenizers) {
  auto of = [&](const char *step, const std::string &part) {
    expectOf([&](json &all) { all["pre_tokenizer"] = json::parse(step); }, part);
  };
  of(R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Sideways"})",
     "\"behavior\" Sideways is not supported");
  of(R"({"type": "Split", "pattern": {"String": "x"}})", "\"pre_tokenizer\": no \"behavior\"");
  of(R"({"type": "Metaspace", "replacement": "ab"})", "\"replacement\" must be one character");
  of(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     "\"prepend_scheme\" last is not supported");
  of(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})",
     "\"add_prefix_space\" false and \"prepend_scheme\" first contradict each other");
}

TEST_F(Refusals, DecodersAndPostProcessors) {
  auto decoder = [&](const char *step, const std::string &part) {
    expectOf([&](json &all) { all["decoder"] = json::parse(step); }, part);
  };
  decoder(R"({"type": "Metaspace", "replacement": ""})", "\"replacement\" is empty");
  decoder(R"({"type": "Strip", "content": "", "start": 1, "stop": 0})", "\"content\" is empty");
  decoder(R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
          "\"start\" must be a whole number of at least 0");
  decoder(R"({"type": "BPEDecoder", "suffix": ""})", "\"suffix\" is empty");
  auto post = [&](const char *step, const std::string &part) {
    expectOf([&](json &all) { all["post_processor"] = json::parse(step); }, part);
  };
  post(R"({"type": "BertProcessing", "sep": ["x"], "cls": ["y", 1]})", "\"sep\" must be a list of a token and its id");
  post(R"({"type": "BertProcessing", "sep": ["x", 99999999], "cls": ["y", 1]})",
       "\"sep\" must be an id below 16777216");
  post(R"({"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})",
       "\"single\" must have the sequence A once");
  post(
      R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "A"}}], "pair": [], "special_tokens": {}})",
      "\"single\" must have the sequence A once");
  post(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>"}}], "pair": [], "special_tokens": {}})",
      "no \"<x>\"");
  post(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>"}}], "pair": [], "special_tokens": {"<x>": {"ids": 3}}})",
      "\"ids\" must be a list, and is a number");
}

TEST_F(Refusals, Models) {
  auto of = [&](const std::function<void(json &)> &change, const std::string &part) {
    expectOf([&](json &all) { change(all["model"]); }, part);
  };
  of([](json &model) { model.erase("vocab"); }, "\"model\": no \"vocab\"");
  of([](json &model) { model["vocab"] = 3; }, "\"vocab\" must be an object, and is a number");
  of([](json &model) { model["vocab"]["c"] = -1; }, "the id of \"c\" must be a whole number of at least 0");
  of([](json &model) { model["vocab"]["c"] = 1; }, "\"b\" and \"c\" both have the id 1");
  of([](json &model) { model["vocab"]["c"] = 1ULL << 40; },
     "the id 1099511627776 of \"c\" is too large: ids below 16777216 are supported");
  of([](json &model) { model["merges"] = 3; }, "\"merges\" must be a list, and is a number");
  of([](json &model) { model["merges"] = {"a b c"}; },
     "\"merges\", entry 0 must be two tokens with a space between them");
  of([](json &model) { model["merges"] = json::array({json::array({"a"})}); },
     "\"merges\", entry 0 must be a list of two texts");
  of([](json &model) { model["merges"] = {"a b", "ab x"}; }, "\"merges\", entry 1: \"x\" is not in the vocabulary");
  of([](json &model) { model["continuing_subword_prefix"] = "##"; }, "\"b\" does not begin with \"##\"");
  of([](json &model) { model["dropout"] = 0.1; }, "\"dropout\" is not supported: tokens would be drawn at random");
  of([](json &model) { model["unk_token"] = "<unk>"; }, "\"unk_token\" <unk> is not in the vocabulary");
  auto unigram = [&](const char *model, const std::string &part) {
    expectOf([&](json &all) { all["model"] = json::parse(model); }, part);
  };
  unigram(R"({"type": "Unigram", "unk_id": 0, "vocab": {}})", "\"vocab\" must be a list, and is an object");
  unigram(R"({"type": "Unigram", "unk_id": 0, "vocab": []})", "\"vocab\" is empty");
  unigram(R"({"type": "Unigram", "unk_id": 9, "vocab": [["a", -1]]})", "\"unk_id\" is 9, and there are 1 tokens");
  unigram(R"({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1], ["b"]]})",
          "\"vocab\", entry 1 must be a list of a token and its score");
  unigram(R"({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1], ["a", -2]]})", "\"a\" is there twice, as 0 and 1");
  unigram(R"({"type": "WordPiece", "unk_token": 7, "continuing_subword_prefix": "##", "vocab": {}})",
          "\"unk_token\" must be a text");
  expectOf([](json &all) { all["added_tokens"][0]["id"] = 7; },
           "\"<s>\" has the id 7 here, and 3 by its place in the vocabulary");
  expectOf([](json &all) { all["added_tokens"][0]["colour"] = 7; },
           "\"added_tokens\", entry 0: \"colour\" is not supported");
}

TEST_F(Refusals, TextsWithoutTokens) {
  json content = good();
  content["model"] = json::parse(R"({"type": "WordLevel", "unk_token": "?", "vocab": {"a": 0}})");
  content["added_tokens"] = json::array();
  auto message = [&](const json &all) {
    Result<std::unique_ptr<tokenizer::Tokenizer>> opened =
        tokenizer::openTokenizer(write("tokenizer.json", all.dump()));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    std::vector<uint32_t> ids;
    return (*opened)->encode("a b", false, ids).message();
  };
  EXPECT_EQ(message(content), "\"b\" has no token, and neither has \"?\", which unknown words become");
  content["model"] = json::parse(R"({"type": "Unigram", "vocab": [["a", -1]], "unk_id": null})");
  EXPECT_EQ(message(content), "\"b\" has what is no token, and the file names no \"unk_id\"");
  content["pre_tokenizer"] =
      json::parse(R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "(?:a|a)*(?:a|a)*(?:a|a)*[bc]"}})");
  content["model"]["vocab"][0][0] = std::string(3000, 'a');
  Result<std::unique_ptr<tokenizer::Tokenizer>> opened =
      tokenizer::openTokenizer(write("tokenizer.json", content.dump()));
  std::vector<uint32_t> ids;
  EXPECT_NE((*opened)->encode(std::string(3000, 'a'), false, ids).message().find("gave up"), std::string::npos);
}

/// The names of a folder's tokenizer_config.json count.
TEST_F(Refusals, ConfigurationsOfFolders) {
  write("hf/tokenizer.json", good().dump());
  write("hf/tokenizer_config.json",
        R"({"eos_token": "ab", "bos_token": {"content": "<s>"}, "pad_token": null, "unk_token": "zzz"})");
  Result<std::unique_ptr<tokenizer::Tokenizer>> opened = tokenizer::openTokenizer((folder / "hf").string());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->special().end, 2U);
  EXPECT_EQ((*opened)->special().begin, 3U);
  EXPECT_EQ((*opened)->special().padding, std::nullopt);
  EXPECT_EQ((*opened)->special().unknown, std::nullopt);
  write("hf/tokenizer_config.json", R"({"eos_token": 7})");
  expect((folder / "hf").string(), "tokenizer_config.json: the file: \"eos_token\" must be an object, and is a number");
  write("hf/tokenizer_config.json", "{");
  expect((folder / "hf").string(), "tokenizer_config.json: not JSON");
}

TEST_F(Refusals, SentencePieceModels) {
  using namespace tokenizer::sentencepiece;
  auto of = [&](const std::function<void(Model &)> &change, const std::string &part) {
    Model model;
    auto add = [&](const std::string &text, int kind) {
      Piece *piece = model.add_pieces();
      piece->set_text(text);
      piece->set_kind(kind);
    };
    add("<unk>", 2);
    add("a", 1);
    change(model);
    expect(write("m.model", model.SerializeAsString()), part);
  };
  of([](Model &) {}, "none");
  expect(write("m.model", ""), "m.model: it is no SentencePiece model: cut short, or something else");
  expect(write("m.model", "\x0a\xff\xff"), "it is no SentencePiece model");
  of([](Model &model) { model.mutable_trainer()->set_kind(3); },
     "models of words are not supported: Unigram and BPE are");
  of([](Model &model) { model.mutable_trainer()->set_kind(4); }, "models of characters are not supported");
  of([](Model &model) { model.mutable_trainer()->set_kind(9); }, "models of a kind of their own are not supported");
  of([](Model &model) { model.mutable_pieces(1)->set_text(""); }, "piece 1 is empty or not UTF-8");
  of([](Model &model) { model.mutable_pieces(1)->set_kind(9); }, "piece 1 is of the kind 9, which is not supported");
  of([](Model &model) { model.mutable_pieces(1)->set_text("<unk>"); }, "piece 1, \"<unk>\", is there twice");
  of([](Model &model) { model.mutable_pieces(1)->set_text(std::string(2000, 'x')); },
     "piece 1 has 2000 bytes: 1024 are supported");
  of([](Model &model) { model.mutable_pieces(1)->set_kind(2); }, "pieces 0 and 1 are both the unknown one");
  of([](Model &model) { model.mutable_pieces(0)->set_kind(1); }, "no piece is the unknown one");
  of([](Model &model) { model.mutable_pieces(1)->set_kind(6); },
     "piece 1, \"a\", is of the kind of bytes and names none");
  of([](Model &model) { model.mutable_trainer()->set_byte_fallback(true); },
     "characters fall back to bytes, and \"<0x00>\" is no piece");
  of([](Model &model) { model.mutable_rules()->set_charsmap("ab"); }, "a map of characters of 2 bytes is cut short");
  of(
      [](Model &model) {
        model.mutable_trainer()->set_kind(2);
        model.mutable_pieces(1)->set_kind(5);
      },
      "piece 1, \"a\", is of the kind \"unused\", which is not supported with BPE");
}

} // namespace
} // namespace mt::tests
