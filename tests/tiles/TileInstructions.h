// AMX's instructions as members of mt::test::Tiles, which who includes this defines.
#ifndef MT_TESTS_TILES_TILEINSTRUCTIONS_H
#define MT_TESTS_TILES_TILEINSTRUCTIONS_H

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps

#define _tile_loadconfig(shapes) ::mt::test::Tiles::own().configure(shapes)
#define _tile_release() ::mt::test::Tiles::own().release()
#define _tile_loadd(tile, from, line) ::mt::test::Tiles::own().load(tile, from, line)
#define _tile_stream_loadd(tile, from, line) _tile_loadd(tile, from, line)
#define _tile_stored(tile, to, line) ::mt::test::Tiles::own().store(tile, to, line)
#define _tile_zero(tile) ::mt::test::Tiles::own().clear(tile)
#define _tile_dpbf16ps(sums, left, right) ::mt::test::Tiles::own().multiply(sums, left, right)

#endif
