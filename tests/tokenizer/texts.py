"""Texts that tokenizers are tried with: twenty languages and more, code, emoji, odd spaces, marks that combine, and bytes
that are no UTF-8 (those as Latin-1, one character a byte)."""

LANGUAGES = [
    "The morning train was late, so they'd waited - and we'll never know why it's 1,234.56 miles.",
    "Der Zug hatte Verspätung; die Straße war naß, aber über 50 Gäste blieben.",
    "Le garçon n'aime pas l'été : « c'est trop chaud », dit-il à sa sœur.",
    "El niño comió 3 piñas. ¿Cuándo volverá? ¡Mañana!",
    "A lição começa às nove, não é? Coração e pão.",
    "Perché l'università è così lontana dalla città?",
    "Wszyscy ludzie rodzą się wolni: zażółć gęślą jaźń.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Fox och älg åt blåbär på ön. Årstiderna växlar.",
    "İstanbul'da ılık bir gün; IĞDIR şehri güzeldir.",
    "Đây là một ngày đẹp trời ở thành phố Hồ Chí Minh.",
    "Утром поезд опоздал, и мы ждали на платформе № 5. Ёжик ел йод.",
    "Їжак їв ґрушу під дубом у Києві.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι. ΟΔΥΣΣΕΥΣ",
    "كل الناس يولدون أحرارًا متساوين في الكرامة. ٣٤٥",
    "כל בני האדם נולדו בני חורין ושווים. שָׁלוֹם",
    "सभी मनुष्यों को गौरव और अधिकारों के विषय में जन्मजात स्वतन्त्रता है। १२३",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ๑๒๓",
    "人人生而自由，在尊严和权利上一律平等。他们说：「你好」！",
    "すべての人間は、生まれながらにして自由であり、カタカナとｶﾀｶﾅ。",
    "모든 인간은 태어날 때부터 자유로우며 존엄하다. 한글",
    "ყველა ადამიანი იბადება თავისუფალი. Բոլոր մարդիկ ծնվում են ազատ։",
    "ሰው ሁሉ ነጻና እኩል ሆኖ ተወልዷል። ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ",
]

CODE = [
    "def f(x):\n    if x >= 10:\n\t\treturn {'a': [1, 2], \"b\": x**2}  # don't\n\n\nprint(f(100))\n",
    "#include <vector>\r\nint main() { return a->b[i++] != 0x1F ? 1 : 0; }\r\n",
    "SELECT name, COUNT(*) FROM t WHERE id=42 AND x<>'O''Reilly';",
    "<div class=\"a-b\">&nbsp;</div><!-- x --> https://example.org/a?b=c&d=%20#e",
    "x = 3.14159e-10; y_1 = __init__ + camelCaseName2 // 007",
]

ODD = [
    "", " ", "  ", "\n", "\t", "a", " a", "a ", "  a  b   c    ", "\n\n\na\n \n b\r\n\r\nc \n", "a\u00a0b\u2009c\u3000d\u0085e\u200bf\ufeffg",
    "cafe\u0301 café A\u030a \u212b \u1e69 s\u0323\u0307 s\u0307\u0323 \u0301x",
    "ﬁ ﬂ ﬃ ½ ² ³ ① Ⅷ ㎏ ｆｕｌｌ　ｗｉｄｔｈ ™ … \u0132 \u01c6 K Å ſ",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ ☎️ 🤷🏻‍♂️ 1️⃣ 😀😀😀😀",
    "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'ſ ’s It's WE'LL they'Re",
    "1 12 123 1234 12345 1234567890 3.5 1,000,000 0001",
    "!!! ... ??? --- === ### ~~~ $$$ @@@ \\\\ /// ``` ''' \"\"\" ()[]{}<> ,,;; «» „“ ¿¡ §¶",
    "ǅ ǆ Ǆ ẞ ß İ ı ς σ Σ ΑΣ ﷺ ﷽ \u1e9e",
    "a\u0000b\u0001c\u007fd\u009fe\ufffdf\ue000g",
    "▁ ▁▁ a▁b ▁c Ġ Ċ ĉ â",
    "<s> </s> <unk> <pad> <mask> [CLS] [SEP] [MASK] <|endoftext|> <0x0A> <extra_id_0>",
    "hi<|endoftext|>there <|endoftext|> x<mask>y  <mask>  z[MASK]. word wordy word",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa the end",
    "thethethethethethethethethethethethethethethethethethethethethethethethethethethethethethethe",
    "한\u1112\u1161\u11ab 가\u11a8 \u0958 \u0915\u093c \u0f73 \u2126 \U0001d15e \U0002f800 \ufb1d",
    "e\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308x q\u0307\u0323 \u0345\u0301",
]

BROKEN = [
    "abc\xff def", "\x80\x81", "a\xc3", "\xe2\x82 x \xe2\x82\xac", "\xf0\x9f\x98 \xf0\x9f\x98\x80", "\xc0\xaf \xe0\x80\x80 \xed\xa0\x80 \xf5\x80", "\xf0\x80\x80\x80z\xf4\x90\x80\x80",
]
