SELECT "u"."id", "u"."a" AS "b" FROM "u" INNER JOIN "o" ON ("u"."id" = "o"."u_id")
=> SELECT "u"."id", "u"."a" AS "b" FROM "u" INNER JOIN "o" ON ("u"."id" = "o"."u_id")

SELECT COUNT(*) FROM (SELECT DISTINCT "t"."id" AS "col1" FROM "t") subquery
=> SELECT COUNT(*) FROM (SELECT DISTINCT "t"."id" AS "col1" FROM "t") subquery

PRAGMA foreign_keys
=> PRAGMA foreign_keys

SELECT 1 WHERE UPPER("u"."a") LIKE UPPER('%a%') ESCAPE '/' AND U0."id" IN (1, 2)
=> SELECT ? WHERE UPPER("u"."a") LIKE UPPER(?) ESCAPE ? AND U0."id" IN (?)

INSERT INTO "o" ("b", "c") VALUES (1, 'x'), (2, NULL) RETURNING "o"."b", id
=> INSERT INTO "o" ("b", "c") VALUES (?) RETURNING "o"."b", id

INSERT INTO "o" ("a") SELECT 1 ON CONFLICT("b") DO UPDATE SET "a" = EXCLUDED."a"
=> INSERT INTO "o" ("a") SELECT ? ON CONFLICT("b") DO UPDATE SET "a" = EXCLUDED."a"

UPDATE "o" SET "note" = 'x', "paid" = 1 WHERE "o"."id" = %s
=> UPDATE "o" SET "note" = ?, "paid" = ? WHERE "o"."id" = ?

DELETE FROM "t" WHERE "t"."id" IN (1)
=> DELETE FROM "t" WHERE "t"."id" IN (?)

SELECT `t`.`i` FROM `t` WHERE `t`.`a` = 1
=> SELECT `t`.`i` FROM `t` WHERE `t`.`a` = ?

SELECT "user".id, "user".name AS user_name 
FROM "user" 
WHERE "user".id = :id_1
=> SELECT "user".id, "user".name AS user_name FROM "user" WHERE "user".id = ?

INSERT INTO "order" (id, "user") VALUES (%(id)s, $2::INTEGER) RETURNING "order".id
=> INSERT INTO "order" (id, "user") VALUES (?, ?::INTEGER) RETURNING "order".id

SELECT data #> $1 FROM t
=> SELECT data #> ? FROM t

SELECT a[1] FROM t -- a remark
=> SELECT a[?] FROM t

select 1e-5, .5, 0xff, 'a' 'b', ?1
=> select ?, .?, ?, ? ?, ?

/* app */ select 1 # it is
, 2
=> select ? ?

select 5--1
, 'x'
=> select ??

select a /* it's */, b -- it's
, '{x}'
=> select a , b , ?

select a #> '{b,c}' from t
=> select a #> ? from t

select array['a', 'b'], c
=> select array[?, ?], c

SELECT a WHERE b IS NULL AND c = NULL
=> SELECT a WHERE b IS NULL AND c = ?

SELECT "a" FROM "t" ORDER BY "b"
=> SELECT ? FROM "t" ORDER BY ?

VALUES ('it\'s', 'x')
=> VALUES (?

ALTER USER x IDENTIFIED BY secret
=> ALTER USER x IDENTIFIED ?

PRAGMA key = secret
=> PRAGMA key = ?

SET LOCAL app.tenant TO secret
=> SET LOCAL app.tenant TO ?

SELECT 'cut he
=> SELECT ?

SAVEPOINT "s12_x1"
=> SAVEPOINT ?

ROLLBACK TO SAVEPOINT s1
=> ROLLBACK TO SAVEPOINT ?

RELEASE s1
=> RELEASE ?

ROLLBACK TO s1;
=> ROLLBACK TO ?

BEGIN IMMEDIATE
=> BEGIN IMMEDIATE
